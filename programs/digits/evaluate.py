"""Print how many held-back digits the committed networks get right under unoptimised ONNX Runtime.

python programs/digits/evaluate.py [FOLDER]
"""

import argparse
from pathlib import Path

import numpy as np
import onnxruntime
from dataset import FOLDER, Digits, load_held_back
from numpy.typing import NDArray


def main() -> None:
    """Print one line for the float network and one for the int8 network."""
    parser = argparse.ArgumentParser(description="Evaluate the digits networks on the held-back images.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="holds the networks; default: this folder")
    folder = parser.parse_args().folder
    digits = load_held_back()
    for label, name in (("float", "digits.onnx"), ("int8", "digits_int8.onnx")):
        right = int((top1(folder / name, digits) == digits.labels).sum())
        count = len(digits.labels)
        print(f"{label:5}  {right} of {count} held-back images right ({100 * right / count:.2f} %)")


def top1(model: Path, digits: Digits) -> NDArray[np.int64]:
    """The class that the network gives each image, with graph optimisations off and one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {"image": image[None]})[0].argmax() for image in digits.images])


if __name__ == "__main__":
    main()
