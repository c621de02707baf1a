"""What holds for every machine: its text, its manual, its encoding, and the networks that are compiled for it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.compiler.models import (
    conv_model,
    flatten_gemm_model,
    gemm_model,
    pool_model,
    random_inputs,
    residual_model,
    run_onnx,
    small_cnn,
)
from tests.isa.random_instructions import random_instruction
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.assembly.assembler import assemble
from tilewright.isa.assembly.disassembler import disassemble
from tilewright.isa.binary.elf import from_bytes
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.check.checker import check
from tilewright.isa.files.laid_over import with_settings
from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.files.machine_file import build_machine
from tilewright.isa.files.yaml_tree import parse_yaml
from tilewright.isa.machine.encoding import decode, encode
from tilewright.isa.machine.machine import Machine
from tilewright.isa.pages.manual import manual
from tilewright.isa.program.budgets import UNBOUNDED
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.interpreter import interpret
from tilewright.simulator.values import PreparedProgram

Inputs = Mapping[str, NDArray[Any]]

MODELS: Mapping[str, Callable[[np.random.Generator], onnx.ModelProto]] = {
    "padded convolution": lambda rng: conv_model(rng, 3, 10, 6, 3, pads=[1, 1, 1, 1]),
    "strided convolution": lambda rng: conv_model(rng, 5, 12, 7, 3, stride=2, relu=True),
    "residual": lambda rng: residual_model(rng, 6, 4),
    "max pool": lambda rng: pool_model(rng, "MaxPool", 5, 7, 3, stride=2, pads=[1, 1, 1, 1]),
    "average pool": lambda rng: pool_model(rng, "AveragePool", 5, 6, 2),
    "global average": lambda rng: pool_model(rng, "GlobalAveragePool", 6, 5, same_scale=False),
    "gemm": lambda rng: gemm_model(rng, 3, 20, 17),
    "flatten": lambda rng: flatten_gemm_model(rng, 4, 3, 6),
    "small cnn": lambda rng: small_cnn(rng, 4, 8, 10),
}

STEPS: Mapping[str, int] = {"residual": 2, "small cnn": 7}
"""Roundings between a model's input and its output, where there is more than one: each may move it by one step."""

RUNS = 3
"""Random inputs for each network."""

TOO_SMALL = re.compile(
    r".+: (its smallest tile needs \d+ bytes of \w+, -?\d+ are free(, and \d+ bytes of \w+, -?\d+ are free)*|"
    r"\w+ needs \d+ words at the same time, \S+ has \d+); try (?P<remedy>(--set memories\.\w+\.(kib|depth)=\d+ ?)+)"
)
"""The refusal of a network that does not fit: layer, memory, needed, available, and the change that would do."""


@dataclass(slots=True)
class Outcome:
    """What came of a machine's networks; `equal` and `values` count outputs of the models with one rounding."""

    compiled: dict[str, Program] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    equal: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)


@cache
def specification(name: str) -> tuple[onnx.ModelProto, tuple[tuple[Inputs, Inputs], ...]]:
    """A model, and pairs of inputs and what ONNX Runtime makes of them."""
    model = MODELS[name](np.random.default_rng(len(name)))
    cases = [random_inputs(model, np.random.default_rng(seed)) for seed in range(RUNS)]
    return model, tuple((inputs, run_onnx(model, inputs)) for inputs in cases)


def hold_text_laws(text: str, name: str) -> Machine:
    """The machine of a text: its canonical text gives it again, its manual names every instruction."""
    machine = load_machine_text(text, name)
    again = load_machine_text(machine.text, name)
    assert again == machine and again.text == machine.text and again.hash == machine.hash
    page = manual(machine)
    assert all(mnemonic in page for mnemonic in machine.formats)
    return machine


def hold_encoding_laws(machine: Machine, seed: int, count: int = 200) -> None:
    """Encoding and decoding, assembling and disassembling, saving and loading give the same instructions."""
    rng = random.Random(seed)
    formats = {of.opcode: of for of in machine.formats.values()}
    instructions = tuple(random_instruction(rng, machine) for _ in range(count))
    for instruction in instructions:
        assert decode(encode(instruction), formats) == instruction
    program = Program(machine, instructions, b"", 0, (), ())
    assert assemble(disassemble(program), machine) == program
    assert from_bytes(to_bytes(program), "program", budgets=UNBOUNDED).instructions == instructions


def hold_network_laws(machine: Machine, names: tuple[str, ...] = tuple(MODELS), interpreted: int = 1) -> Outcome:
    """Every network compiles to a valid program that computes what ONNX Runtime does, or is refused in full.

    `interpreted`: for how many inputs of each the interpreter must give the same bytes.
    """
    outcome = Outcome()
    for name in names:
        model, cases = specification(name)
        try:
            program = compile_model(model, machine)
        except CompileError as error:
            assert TOO_SMALL.fullmatch(str(error)), f"{machine.name}, {name}: {error}"
            outcome.refused[name] = str(error)
            continue
        outcome.compiled[name] = program
        assert check(program) == (), f"{machine.name}, {name}"
        bases = place_regions(program.limits)
        prepared = PreparedProgram(program, bases)
        for number, (inputs, expected) in enumerate(cases):
            image = dram_image(program, inputs)
            state = prepared.run(image)
            if number < interpreted:
                oracle = interpret(program, image, bases)
                assert np.array_equal(state.dram, oracle.dram), f"{machine.name}, {name}: DRAM"
                for memory, stored in oracle.memories.items():
                    assert np.array_equal(state.memories[memory], stored), f"{machine.name}, {name}: {memory}"
            _compare(program, read_outputs(program, state.dram), expected, name, machine, outcome)
    return outcome


def _compare(
    program: Program, outputs: Inputs, expected: Inputs, name: str, machine: Machine, outcome: Outcome
) -> None:
    for of in program.outputs:
        steps = np.rint(np.abs(outputs[of.name].astype(np.float64) - expected[of.name]) / of.scale).astype(np.int64)
        assert steps.max() <= STEPS.get(name, 1), f"{machine.name}, {name}: {steps.max()} steps from ONNX Runtime"
        if name not in STEPS:
            outcome.equal[name] = outcome.equal.get(name, 0) + int((steps == 0).sum())
            outcome.values[name] = outcome.values.get(name, 0) + steps.size


def scale_bits(machine: Machine) -> int:
    """The width of the requantisation's multipliers."""
    return machine.memories["par"].element.field("scale").type.bits


def hold_remedies(machine: Machine, outcome: Outcome) -> None:
    """With the change that a refusal proposes, the network compiles."""
    for name, message in outcome.refused.items():
        compile_model(specification(name)[0], with_overrides(machine, proposed(message)))


def proposed(message: str) -> list[str]:
    """The overrides that a refusal proposes."""
    refusal = TOO_SMALL.fullmatch(message)
    assert refusal is not None, message
    return refusal["remedy"].removeprefix("--set ").split(" --set ")


def with_overrides(machine: Machine, overrides: Sequence[str]) -> Machine:
    """The machine with some `key.path=value` set."""
    return build_machine(with_settings(parse_yaml(machine.text, machine.name), overrides), machine.name)


def hold_accuracy(machine: Machine, outcome: Outcome) -> None:
    """Single layers equal ONNX Runtime but for few values, none of which is more than one step away.

    A multiplier of n bits is within 2**-n of the scale, so a result of at most 128 steps within 2**(7 - n) steps of the
    exact one: 99.9 % of the values are equal from 16 bits on, 99.7 % with 12. Averages over four values are ties in a
    quarter of all cases, which ONNX Runtime's float32 sums decide by their own rounding, as other rules than `even` do.
    """
    pooled = "average pool"
    exact = [name for name in outcome.values if name != pooled]
    values = sum(outcome.values[name] for name in exact)
    different = values - sum(outcome.equal[name] for name in exact)
    most = 0.001 if scale_bits(machine) >= 16 else 0.003
    assert different <= max(1, most * values), f"{machine.name}: {different} of {values} values differ"
    if pooled in outcome.values:
        assert outcome.equal[pooled] >= 0.75 * outcome.values[pooled], f"{machine.name}: {pooled}"
