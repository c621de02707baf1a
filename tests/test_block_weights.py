"""What docs/types.md says of weights in blocks is so: its tables, its machine's file, and that machine's hardware."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import yaml

from tests.block_weights import NARROW, cycles, in_blocks, losses, matrix_bytes, row
from tests.compiler.block_models import block_model
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import simulated
from tests.schedules.never_slower import model
from tests.test_simulator_equals_rtl import assert_equal
from tests.types import PAGE
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions

SMALL = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner."""

WIDE_ACTIVATIONS = """\
extends: base16-a16
memories:
  scl: {element: uint16, width: lanes, kib: 32, banks: 2}
engines:
  load: {writes: [act, wgt, acc, par, lut, slope, curve, twist, scl]}
  vec:  {reads: [act, acc, par, lut, slope, curve, twist, scl]}
instructions:
  mma_w4:
    engine: mma
    loops:  {n: 6, r: 4, s: 4, k: 8, y: 10, x: 10}
    reduce: [r, s, k]
    from:   {a: "rows // lanes * act[r, s, k, y, x]", w: "rows * wgt[n, r, s, k] as int4"}
    to:     {c: "2 * cols // lanes * acc[n, y, x]"}
    flags:  [accumulate]
    do: c = wrap(sum(dot(a, w)), acc)
  load_scl: {engine: load, loops: {i: 10, j: 10, k: 12}, from: {d: dram}, to: {y: scl}, do: y = d}
  sum_blocks:
    engine: vec
    loops:  {c: 8, y: 10, x: 10, b: 7}
    reduce: [b]
    from:   {a: acc, w: "scl[c, b]"}
    to:     {y: "acc[c, y, x]"}
    do: y = wrap(sum(a * w), acc)
"""
"""base16-a16 with what llm16 has for blocks: activations of sixteen bits, weights of four."""


def test_the_page_shows_the_instruction_of_the_machine() -> None:
    (shown,) = (
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "scl:" in text
    )
    machine = load_machine(NARROW)
    own = yaml.safe_load(re.sub(r"(?m)^extends:.*$", "", machine.text)) if "scl" in machine.text else {}
    for part in ("memories", "instructions"):
        for name, entry in shown[part].items():
            assert own[part][name] == entry or {**own[part][name], **entry} == own[part][name]


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints() -> None:
    assert row("stories260k-step") in PAGE.read_text().splitlines()


@pytest.mark.long
def test_the_page_shows_what_the_large_decoder_takes() -> None:
    assert row("stories15m-step") in PAGE.read_text().splitlines()


@pytest.mark.long
def test_the_page_shows_what_the_trained_decoder_loses() -> None:
    assert set(losses()) <= set(PAGE.read_text().splitlines())


@pytest.mark.slow
def test_a_decoder_takes_fewer_cycles_and_bytes() -> None:
    wide, narrow = model("stories260k-step"), in_blocks("stories260k-step")
    assert cycles(narrow, NARROW) < cycles(wide, "sequence16")
    assert matrix_bytes(narrow) <= 0.57 * matrix_bytes(wide)


@pytest.mark.slow
def test_products_of_sixteen_bits_are_a_step_off_at_most() -> None:
    """Of 160 activations of int16, the results are compared with the file's meaning in float64."""
    network = block_model(160, 40, activations="int16")
    x = np.random.default_rng(3).normal(scale=100, size=(3, 160)).astype(np.float32)
    program = compile_model(network, load_machine_text(WIDE_ACTIVATIONS, "wide"), Options(effort=0))
    (found,) = simulated(program, {"x": x}).values()
    meant = _meaning(network, x)
    step = np.float64(np.float32(0.01 * np.sqrt(5)))
    off = np.rint(found / step) - meant
    assert np.ptp(meant) > 10_000 and np.abs(off).max() <= 1 and (off == 0).mean() >= 0.95


def _meaning(network: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The result in steps, in float64: quantised activations times codes times scales."""
    held = {each.name: onnx.numpy_helper.to_array(each) for each in network.graph.initializer}
    activations = np.clip(np.rint(x / held["x_scale"]) + 3, -(1 << 15), (1 << 15) - 1) - 3
    real = held["w"].astype(np.float64) * held["w_scale"].astype(np.float64).repeat(32, axis=0)[: len(held["w"])]
    exact = activations * np.float64(held["x_scale"]) @ real
    return np.clip(np.rint(exact / np.float64(held["y_scale"])) - 5, -(1 << 15), (1 << 15) - 1) + 5


@pytest.mark.slow
def test_networks_are_the_simulators_on_the_hardware() -> None:
    small: Machine = load_machine(NARROW, SMALL)
    jobs = []
    for summed, results, block in ((20, 12, 8), (32, 5, 16)):
        network = block_model(summed, results, block, element="INT4")
        program = compile_model(network, small)
        image = host.dram_image(program, random_inputs(network, np.random.default_rng(0)))
        jobs.append((program, image, place_regions(program.limits)))
    assert_equal(small, jobs, range(len(jobs)))
