"""The trained network from ONNX to logits: against unoptimised ONNX Runtime, layer by layer and end to end."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tests.digits import MODEL, images, labels, reference_logits, reference_tensors
from tests.stored_values import stored_values
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.host_values import from_host
from tilewright.compiler.nest.interpreter import run_nest
from tilewright.compiler.simplify.steps import simplify_graph
from tilewright.isa.files.loader import load_machine, shipped_machines

MACHINES = ("base16", "tiny8", "rect")


def logits(program: tilewright.Program, count: int) -> np.ndarray:
    return np.concatenate([program.run({"image": image[None]}).outputs["logits"] for image in images()[:count]])


@pytest.mark.parametrize("isa", MACHINES)
def test_top_1_is_that_of_onnx_runtime(isa: str) -> None:
    count = 60

    found = logits(tilewright.compile(MODEL, isa), count)

    assert (found.argmax(1) == reference_logits()[:count].argmax(1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("isa", shipped_machines())
def test_all_held_back_images(isa: str) -> None:
    found = logits(tilewright.compile(MODEL, isa), len(images()))

    assert (found.argmax(1) == reference_logits().argmax(1)).all()
    assert (found.argmax(1) == labels()).mean() >= 0.97


def test_every_machine_gives_the_same_bits() -> None:
    base16, tiny8, rect = (logits(tilewright.compile(MODEL, isa), 12) for isa in MACHINES)

    assert np.array_equal(base16, tiny8)
    assert np.array_equal(base16, rect)


def test_each_layer_is_within_one_step_of_onnx_runtime() -> None:
    """On ONNX Runtime's own inputs of each layer: never more than 1 LSB away, equal on at least 99.9 %."""
    program = lower(simplify_graph(import_onnx(str(MODEL))), load_machine("base16"))
    values: dict[str, list[int]] = {nest.name: [0, 0, 0] for nest in program.nests}

    for reference in reference_tensors(100):
        tensors = {tensor.name: from_host(reference["image"] if tensor.name in reference else image, tensor)
                   for tensor in program.inputs for image in [images()[:1]]}  # fmt: skip
        for name, buffer in program.buffers.items():
            stem = name.removesuffix(".integers").removesuffix("_QuantizeLinear_Output")
            if f"{stem}_QuantizeLinear_Output" in reference:
                quantised = reference[f"{stem}_QuantizeLinear_Output"]
                tensors[name] = stored_values(quantised, program, buffer)
        for nest in program.nests:
            result = np.zeros(program.buffers[nest.result.tensor].shape, np.int64)
            run_nest(nest, {**program.constants, **tensors}, result)
            distance = np.abs(result - tensors[nest.result.tensor])
            count = values[nest.name]
            values[nest.name] = [count[0] + distance.size, count[1] + int((distance > 0).sum()), max(count[2], int(distance.max()))]  # fmt: skip  # noqa: E501

    assert len(values) == 8
    for name, (size, unequal, furthest) in values.items():
        assert furthest <= 1, name
        assert unequal / size <= 0.001, f"{name}: {unequal} of {size} differ"


def test_compiling_twice_gives_the_same_bytes(tmp_path: object) -> None:
    first, second = (tilewright.compile(MODEL, "base16").binary for _ in range(2))

    assert first.text == second.text
    assert first.weights == second.weights
