"""Train the digits network in numpy and write `digits.onnx` with the held-back images beside it.

    python programs/digits/train.py [FOLDER]

Seeded and single-threaded: on one machine, two runs write the same bytes.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from dataset import FOLDER, Digits, load_split, save_held_back
from network import CLASSES, CONVOLUTIONS, Array, Parameters, initial_parameters, loss_and_gradients
from onnx import TensorProto, helper, numpy_helper
from threadpoolctl import threadpool_limits

SEED = 8
EPOCHS = 80
BATCH = 64
PEAK_RATE = 4e-3
WARM_UP_STEPS = 50
WEIGHT_DECAY = 1e-2
LABEL_SMOOTHING = 0.05
OPSET = 17
IR_VERSION = 8


def main() -> None:
    """Train, then write the network and the held-back images into the folder."""
    parser = argparse.ArgumentParser(description="Train the digits network.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where to write; default: this folder")
    folder = parser.parse_args().folder
    training, held_back = load_split()
    with threadpool_limits(1):  # threads would change the order of sums, and so the bytes
        parameters = train(training)
    onnx.save(as_onnx(parameters), folder / "digits.onnx")
    save_held_back(held_back, folder)
    print(f"wrote {folder / 'digits.onnx'}, {folder / 'images.npz'} and {folder / 'example.npz'}")


def train(digits: Digits) -> Parameters:
    """Parameters after `EPOCHS` epochs of AdamW on shifted images, with a cosine learning rate."""
    random = np.random.default_rng(SEED)
    parameters = initial_parameters(random)
    first_moment = {name: np.zeros_like(value) for name, value in parameters.items()}
    second_moment = {name: np.zeros_like(value) for name, value in parameters.items()}
    targets = smoothed_targets(digits.labels)
    steps_per_epoch = len(digits.images) // BATCH
    step = 0
    for epoch in range(EPOCHS):
        order = random.permutation(len(digits.images))
        losses = []
        for start in range(0, steps_per_epoch * BATCH, BATCH):
            batch = order[start : start + BATCH]
            loss, gradients = loss_and_gradients(parameters, shifted(digits.images[batch], random), targets[batch])
            losses.append(loss)
            step += 1
            rate = learning_rate(step, EPOCHS * steps_per_epoch)
            for name, gradient in gradients.items():
                first_moment[name] += np.float32(0.1) * (gradient - first_moment[name])
                second_moment[name] += np.float32(0.001) * (gradient * gradient - second_moment[name])
                mean = first_moment[name] / np.float32(1 - 0.9**step)
                variance = second_moment[name] / np.float32(1 - 0.999**step)
                decay = np.float32(WEIGHT_DECAY) * parameters[name] if name.endswith(".weight") else np.float32(0)
                parameters[name] -= np.float32(rate) * (mean / (np.sqrt(variance) + np.float32(1e-8)) + decay)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3d} of {EPOCHS}: mean loss {np.mean(losses):.4f}")
    return parameters


def smoothed_targets(labels: np.ndarray) -> Array:
    """Target distributions [n, 10]: the label's class keeps all but `LABEL_SMOOTHING`, which all classes share."""
    one_hot = np.eye(CLASSES, dtype=np.float32)[labels]
    return one_hot * np.float32(1 - LABEL_SMOOTHING) + np.float32(LABEL_SMOOTHING / CLASSES)


def shifted(images: Array, random: np.random.Generator) -> Array:
    """Every image moved by -1, 0 or 1 pixel in each direction, half of the time not at all; zeros move in."""
    offsets = random.integers(-1, 2, (len(images), 2)) * random.integers(0, 2, (len(images), 1))
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = [image[:, 1 + dy : 9 + dy, 1 + dx : 9 + dx] for image, (dy, dx) in zip(padded, offsets, strict=True)]
    return np.stack(moved)


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up to `PEAK_RATE`, then half a cosine down to zero."""
    warm_up = min(1.0, step / WARM_UP_STEPS)
    return float(PEAK_RATE * warm_up * 0.5 * (1 + np.cos(np.pi * step / steps)))


def as_onnx(parameters: Parameters) -> onnx.ModelProto:
    """The float network: input `image` [1,1,8,8], output `logits` [1,10], nodes named by their place."""
    nodes = [
        convolution("conv1", "image", "conv1.out"),
        helper.make_node("Relu", ["conv1.out"], ["relu1.out"], "relu1"),
        convolution("conv2", "relu1.out", "conv2.out"),
        helper.make_node("Relu", ["conv2.out"], ["relu2.out"], "relu2"),
        convolution("block.conv1", "relu2.out", "block.conv1.out"),
        helper.make_node("Relu", ["block.conv1.out"], ["block.relu1.out"], "block.relu1"),
        convolution("block.conv2", "block.relu1.out", "block.conv2.out"),
        helper.make_node("Add", ["block.conv2.out", "relu2.out"], ["block.add.out"], "block.add"),
        helper.make_node("Relu", ["block.add.out"], ["block.relu2.out"], "block.relu2"),
        helper.make_node(
            "MaxPool", ["block.relu2.out"], ["maxpool.out"], "maxpool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("GlobalAveragePool", ["maxpool.out"], ["average.out"], "average"),
        helper.make_node("Flatten", ["average.out"], ["flatten.out"], "flatten"),
        helper.make_node("Gemm", ["flatten.out", "dense.weight", "dense.bias"], ["logits"], "dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in parameters.items()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="programs/digits/train.py",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def convolution(name: str, source: str, destination: str) -> onnx.NodeProto:
    """The Conv node `name` of the table `CONVOLUTIONS`."""
    _, _, stride = CONVOLUTIONS[name]
    return helper.make_node(
        "Conv",
        [source, f"{name}.weight", f"{name}.bias"],
        [destination],
        name,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[stride, stride],
    )


if __name__ == "__main__":
    main()
