"""Detectors with TFLite_Detection_PostProcess: the machine computes boxes and scores, the host chooses among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import tilewright
from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.importers.tflite.runs import random_values, run, translate
from tilewright.compiler.errors import CompileError

SIDE, ANCHORS, CLASSES = 4, 3, 5
BOXES = SIDE * SIDE * ANCHORS
KIND = "CUSTOM TFLite_Detection_PostProcess"


@dataclass(frozen=True)
class Detector:
    """The forms that its last operator has."""

    is_regular: bool = False
    has_background: bool = True
    per_detection: int = 1
    threshold: float = 0.4
    overlap: float = 0.5
    most: int = 10
    per_class: int = 100
    is_open: bool = False  # the results' shapes are not in the file
    is_uint8: bool = False  # in old files, the last operator takes integers

    def alone(self) -> tuple[TfliteFile, list[Tensor]]:
        """The last operator, of inputs."""
        file, count = TfliteFile(), CLASSES + self.has_background
        scale, dtype = (0.05, np.uint8) if self.is_uint8 else (None, np.float32)
        boxes = file.input("boxes", (1, BOXES, 4), scale, 128, dtype)
        scores = file.input("scores", (1, BOXES, count), scale and 1 / 256, 0, dtype)
        return file, self._last(file, boxes, scores)

    def made(self) -> tuple[TfliteFile, list[Tensor]]:
        """A detector of two convolutions."""
        rng, file = np.random.default_rng(1), TfliteFile()
        x = file.input("x", (1, SIDE, SIDE, 6), 0.02, self._zero(0), self.dtype)
        boxes = self._head(file, rng, x, "boxes", 4, 0.05)
        count = CLASSES + self.has_background
        scores = self._head(file, rng, x, "logits", count, 0.06)
        shares = file.tensor("scores", scores.shape, 1 / 256, self._zero(-128), self.dtype)
        file.operator("LOGISTIC", [scores], shares)
        if not self.is_uint8:
            boxes, shares = self._real(file, boxes), self._real(file, shares)
        return file, self._last(file, boxes, shares)

    def _last(self, file: TfliteFile, boxes: Tensor, scores: Tensor) -> list[Tensor]:
        rng = np.random.default_rng(2)
        anchors = np.concatenate([rng.uniform(0, 1, (BOXES, 2)), rng.uniform(0.1, 0.4, (BOXES, 2))], 1)
        if self.is_uint8:
            given = file.constant("anchors", np.rint(anchors * 240).astype(np.uint8), [1 / 240])
        else:
            given = file.constant("anchors", anchors.astype(np.float32))
        rows = self.most * self.per_detection
        shapes: list[tuple[int, ...]] = [(1, rows, 4), (1, rows), (1, rows), (1,)]
        names = ("boxes of", "classes of", "scores of", "count")
        outputs = [
            file.tensor(name, () if self.is_open else shape, None, dtype=np.float32)
            for name, shape in zip(names, shapes, strict=True)
        ]
        options = np.frombuffer(self._options(), np.uint8)
        file.operator(KIND, [boxes, scores, given], outputs, fields={"CustomOptions": options})
        return outputs

    def _head(self, file: TfliteFile, rng: Any, x: Tensor, name: str, width: int, scale: float) -> Tensor:
        channels = ANCHORS * width
        values = rng.integers(-127, 128, (channels, 1, 1, 6)) + self._zero(0)
        w = file.constant(f"{name}/w", values.astype(self.dtype), [0.004], [self._zero(0)])
        y = file.tensor(f"{name}/conv", (1, SIDE, SIDE, channels), scale, self._zero(0), self.dtype)
        bias = file.constant(f"{name}/b", np.zeros(channels, np.int32), [0.02 * 0.004])
        file.operator("CONV_2D", [x, w, bias], y, "Conv2DOptions", StrideW=1, StrideH=1)
        flat = file.tensor(f"{name}/flat", (1, BOXES, width), scale, self._zero(0), self.dtype)
        file.operator("RESHAPE", [y], flat, "ReshapeOptions", NewShape=[1, BOXES, width])
        return flat

    def values(self, rng: Any) -> dict[str, Any]:
        """Of the last operator: no two scores are the same, unless they are integers."""
        shapes = {"boxes": (1, BOXES, 4), "scores": (1, BOXES, CLASSES + self.has_background)}
        if self.is_uint8:
            return {name: random_values(shape, np.dtype(np.uint8), rng) for name, shape in shapes.items()}
        least = {"boxes": -4, "scores": 0}
        return {name: rng.uniform(least[name], 1, shape).astype(np.float32) for name, shape in shapes.items()}

    @property
    def dtype(self) -> Any:
        return np.uint8 if self.is_uint8 else np.int8

    def _zero(self, zero: int) -> int:
        return zero + 128 if self.is_uint8 else zero

    def _real(self, file: TfliteFile, x: Tensor) -> Tensor:
        real = file.tensor(f"{x.name}/real", x.shape, None, dtype=np.float32)
        file.operator("DEQUANTIZE", [x], real, "DequantizeOptions")
        return real

    def _options(self) -> bytes:
        builder = flexbuffers.Builder()
        with builder.Map():
            builder.Bool("_output_quantized", True)
            builder.Int("detections_per_class", self.per_class)
            builder.Float("h_scale", 5.0)
            builder.Int("max_classes_per_detection", self.per_detection)
            builder.Int("max_detections", self.most)
            builder.Float("nms_iou_threshold", self.overlap)
            builder.Float("nms_score_threshold", self.threshold)
            builder.Int("num_classes", CLASSES)
            builder.Bool("use_regular_nms", self.is_regular)
            builder.Float("w_scale", 5.0)
            builder.Float("x_scale", 10.0)
            builder.Float("y_scale", 10.0)
        return bytes(builder.Finish())


FORMS = {
    "of boxes": Detector(),
    "of each class": Detector(is_regular=True),
    "without background": Detector(has_background=False),
    "of each class, without background": Detector(is_regular=True, has_background=False),
    "two classes a box": Detector(per_detection=2),
    "more classes a box than there are": Detector(per_detection=7, has_background=False),
    "fewer than there is room for": Detector(threshold=0.9),
    "none": Detector(threshold=1.5),
    "of each class, none": Detector(is_regular=True, threshold=1.5),
    "all": Detector(threshold=0.0, overlap=1.0, most=BOXES),
    "few of each class": Detector(is_regular=True, per_class=2, most=30, threshold=0.0),
    "open shapes": Detector(is_open=True),
    "all of uint8": Detector(is_uint8=True),
}


@pytest.mark.parametrize("name", FORMS)
def test_chooses_what_litert_chooses(name: str) -> None:
    file, outputs = FORMS[name].alone()
    model, litert = translate(file, *outputs), Litert(file.content(*outputs))
    counts = []
    for seed in range(4):
        inputs = FORMS[name].values(np.random.default_rng(seed))
        expected, came = litert.run(inputs), run(model, inputs)
        counts.append(int(expected["count"][0]))
        assert came["count"] == expected["count"]
        used = counts[-1] * (1 if FORMS[name].is_regular else FORMS[name].per_detection)
        each = min(FORMS[name].per_detection, CLASSES)  # what is behind them is anything, in LiteRT
        there = [row for row in range(used) if row % FORMS[name].per_detection < each]
        for of in ("boxes of", "classes of", "scores of"):
            np.testing.assert_allclose(came[of][0, there], expected[of][0, there], atol=1e-5)
            assert not came[of][0, used:].any()
    assert bool(max(counts)) == ("none" not in name)


@pytest.mark.parametrize("name", ["of boxes", "of each class"])
def test_the_machine_computes_all_that_comes_before(name: str) -> None:
    file, outputs = FORMS[name].made()
    program = tilewright.compile(file.content(*outputs), "base16", effort=0)
    inputs = {"x": random_values((1, SIDE, SIDE, 6), np.dtype(np.int8), np.random.default_rng(0))}
    expected, came = run(translate(file, *outputs), inputs), program.run(inputs).outputs
    for output in outputs:
        np.testing.assert_allclose(came[output.name], expected[output.name], atol=1e-5)
    assert {"NonMaxSuppression", "Exp", "TopK"} <= {node.op_type for node in program.host_nodes}
    assert not {"Conv", "Sigmoid"} & {node.op_type for node in program.host_nodes}
    assert all(node.reason for node in program.host_nodes)


def test_another_custom_operator_is_named() -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 3)), file.tensor("y", (2, 3))
    file.operator("CUSTOM Mystery", [x], y, fields={"CustomOptions": np.array([1, 2, 3], np.uint8)})
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (custom Mystery): an operator outside TFLite's own has no lowering; remove it from the network"
    )


@pytest.mark.parametrize("options", [b"", b"\1\2\3", bytes(40)])
def test_damaged_options_are_refused(options: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Detector, "_options", lambda _: options)
    file, outputs = Detector().made()
    with pytest.raises(CompileError):
        translate(file, *outputs)
