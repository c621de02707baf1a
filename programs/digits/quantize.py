"""Quantise `digits.onnx` to int8 with ONNX Runtime's static quantiser and write `digits_int8.onnx`.

    python programs/digits/quantize.py [FOLDER]

QDQ form: weights int8, symmetric, one scale per output channel; activations int8 with a zero point, their ranges the
minimum and maximum over 512 training images. Run on one thread, so that two runs write the same bytes.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from dataset import FOLDER, load_split
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

CALIBRATION_IMAGES = 512


class TrainingImages(CalibrationDataReader):
    """Feeds the first training images to the calibration, one at a time."""

    def __init__(self) -> None:
        training, _ = load_split()
        images = training.images[:CALIBRATION_IMAGES]
        self._feeds: Iterator[dict[str, np.ndarray]] = iter([{"image": image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next image as the network's input, or None at the end."""
        return next(self._feeds, None)


def main() -> None:
    """Quantise the float network of the folder."""
    parser = argparse.ArgumentParser(description="Quantise the digits network to int8.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="holds digits.onnx; default: this folder")
    folder = parser.parse_args().folder
    destination = folder / "digits_int8.onnx"
    quantize_static(
        folder / "digits.onnx",
        destination,
        TrainingImages(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
        extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
    )
    onnx.checker.check_model(str(destination), full_check=True)
    print(f"wrote {destination}")


if __name__ == "__main__":
    main()
