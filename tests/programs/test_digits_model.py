"""The digits network is what its README says: valid ONNX, int8 throughout, and right on the held-back images."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

MODELS = ["digits.onnx", "digits_int8.onnx"]


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    """The folder of the network."""
    return repository / "programs" / "digits"


@pytest.mark.parametrize("name", MODELS)
def test_is_valid_onnx(folder: Path, name: str) -> None:
    onnx.checker.check_model(str(folder / name), full_check=True)


@pytest.mark.parametrize("name", MODELS)
def test_names_every_node_once(folder: Path, name: str) -> None:
    names = [node.name for node in onnx.load(folder / name).graph.node]
    assert all(names) and len(set(names)) == len(names)


@pytest.mark.parametrize("name", MODELS)
def test_takes_one_image_and_gives_ten_logits(folder: Path, name: str) -> None:
    graph = onnx.load(folder / name).graph
    assert [(value.name, *shape_of(value)) for value in (*graph.input, *graph.output)] == [
        ("image", 1, 1, 8, 8),
        ("logits", 1, 10),
    ]


def test_float_network_has_every_kind_of_layer(folder: Path) -> None:
    operators = [node.op_type for node in onnx.load(folder / "digits.onnx").graph.node]
    assert {operator: operators.count(operator) for operator in operators} == {
        "Conv": 4,
        "Relu": 4,
        "Add": 1,
        "MaxPool": 1,
        "GlobalAveragePool": 1,
        "Flatten": 1,
        "Gemm": 1,
    }


def test_int8_network_quantises_around_every_operator(folder: Path) -> None:
    nodes = onnx.load(folder / "digits_int8.onnx").graph.node
    producer = {output: node.op_type for node in nodes for output in node.output}
    consumers = {output: {n.op_type for n in nodes if output in n.input} for node in nodes for output in node.output}
    operators = [node for node in nodes if node.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    bare_inputs = [name for node in operators for name in node.input if producer.get(name) != "DequantizeLinear"]
    bare_outputs = [name for node in operators for name in node.output if consumers[name] != {"QuantizeLinear"}]
    assert (bare_inputs, bare_outputs) == ([], [])


def test_int8_weights_are_symmetric_and_per_channel(folder: Path) -> None:
    graph = onnx.load(folder / "digits_int8.onnx").graph
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = [name for name in values if name.endswith(".weight_quantized")]
    assert len(weights) == 5
    for name in weights:
        zero_points = values[name.replace("_quantized", "_zero_point")]
        assert values[name].dtype == zero_points.dtype == np.int8
        assert zero_points.tolist() == [0] * values[name].shape[0]


@pytest.mark.parametrize("name", MODELS)
def test_reads_97_percent_of_held_back_digits(folder: Path, name: str) -> None:
    images, labels = held_back(folder)
    right = (top1(folder / name, images) == labels).sum()
    assert len(labels) == 360
    assert right >= 0.97 * len(labels)


def test_example_is_the_first_held_back_image(folder: Path) -> None:
    images, _ = held_back(folder)
    with np.load(folder / "example.npz") as stored:
        assert stored.files == ["image"]
        assert np.array_equal(stored["image"], images[:1])


def test_held_back_images_are_those_of_the_split(folder: Path, tmp_path: Path) -> None:
    program = "import dataset, pathlib; dataset.save_held_back(dataset.load_split()[1], pathlib.Path({!r}))"
    subprocess.run([sys.executable, "-c", program.format(str(tmp_path))], cwd=folder, check=True)
    images, labels = held_back(folder)
    again, labels_again = held_back(tmp_path)
    assert np.array_equal(images, again) and np.array_equal(labels, labels_again)


def test_no_training_image_is_held_back(folder: Path) -> None:
    program = "import dataset, sys; sys.stdout.buffer.write(dataset.load_split()[0].images.tobytes())"
    written = subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True).stdout
    training = np.frombuffer(written, np.float32).reshape(-1, 64)
    images, _ = held_back(folder)
    assert len(training) == 1437
    assert not {row.tobytes() for row in training} & {image.tobytes() for image in images}


@pytest.mark.long
def test_scripts_make_an_equally_good_network_twice_the_same(folder: Path, tmp_path: Path) -> None:
    """Bytes are compared between two runs here, not with the committed files: another processor sums differently."""
    first, second = tmp_path / "first", tmp_path / "second"
    for destination in (first, second):
        destination.mkdir()
        for script in ("train.py", "quantize.py"):
            subprocess.run([sys.executable, str(folder / script), str(destination)], check=True)

    for name in (*MODELS, "images.npz", "example.npz"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    images, labels = held_back(folder)
    for name in MODELS:
        assert (top1(first / name, images) == labels).mean() >= 0.97


def held_back(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels from `images.npz` of a folder."""
    with np.load(folder / "images.npz") as stored:
        return stored["images"], stored["labels"]


def top1(model: Path, images: np.ndarray) -> np.ndarray:
    """The class of each image by ONNX Runtime, optimisations off, one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {"image": image[None]})[0].argmax() for image in images])


def shape_of(value: onnx.ValueInfoProto) -> list[int]:
    """The fixed shape of a graph's input or output."""
    return [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
