"""Covers as text: print and parse are each other's inverse, compilation goes on from the text, and faults are named."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import onnx
import pytest

from tests.compiler.lower.test_matmul import product
from tests.compiler.lower.test_softmax import softmax_model
from tests.compiler.machines import without
from tests.compiler.models import pool_model, residual_model, small_cnn
from tests.compiler.nests import network_for
from tests.compiler.simplify.test_computed_products import attention_model
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.pipeline import compile_model, resume
from tilewright.compiler.select.bindings import Binding, Idle
from tilewright.compiler.select.select import select
from tilewright.compiler.select.text import parse_selection, print_selection
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine

MODELS = {
    "small": (small_cnn(np.random.default_rng(0)), "tiny8"),
    "residual": (residual_model(np.random.default_rng(0)), "base16"),
    "large window": (pool_model(np.random.default_rng(0), "MaxPool", 20, 24, kernel=20), "base16"),
    "softmax": (softmax_model((1, 10, 4, 4)), "vector16"),
    "attention": (attention_model(1, 6, 64, 2), "base16"),
}


def text_of(model: onnx.ModelProto, machine: Machine) -> str:
    """The text of the pass `select`."""
    dumped: dict[str, str] = {}
    compile_model(model, machine, dump=dumped.__setitem__)
    return dumped["select"]


@pytest.mark.parametrize("name", MODELS)
def test_print_and_parse_undo_each_other(name: str) -> None:
    model, machine = MODELS[name][0], load_machine(MODELS[name][1])
    dumped: dict[str, str] = {}
    compile_model(model, machine, dump=dumped.__setitem__)
    selection = select(parse_nests(dumped["parts"]), machine)
    again = parse_selection(dumped["select"], machine)
    assert again.covers == selection.covers
    assert print_nests(again.program) == dumped["parts"]
    assert print_selection(again) == print_selection(selection) == dumped["select"]


@pytest.mark.parametrize("name", MODELS)
def test_compilation_goes_on_from_the_text_to_the_same_bytes(name: str) -> None:
    model, machine = MODELS[name][0], load_machine(MODELS[name][1])
    assert to_bytes(resume("select", text_of(model, machine), machine)) == to_bytes(compile_model(model, machine))


@pytest.mark.parametrize("after", ["fuse", "plain-sums", "column-sums", "windows", "parts", "select"])
def test_goes_on_with_corrections_of_a_product(after: str) -> None:
    machine = load_machine("base16")
    nests = print_nests(lower(product((1, 20, 40, 30), ("int8", 5, 7), False)[0], machine))
    dumped: dict[str, str] = {}
    program = resume("lower", nests, machine, dump=dumped.__setitem__)
    assert "corrections = [{number = -7, vector = false}, {number = -5, vector = true}]" in dumped["select"]
    assert to_bytes(resume(after, dumped[after], machine)) == to_bytes(program)


def test_goes_on_with_an_idle_operand() -> None:
    """A rescaling by the instruction that adds two tensors, with a factor of 0 for one of them."""
    machine = without(load_machine("base16"), "rescale")
    network = network_for(machine, 1)
    output = network.rescale(network.input(1, 20, 8, 8))
    dumped: dict[str, str] = {}
    program = resume("lower", print_nests(network.program(output)), machine, dump=dumped.__setitem__)
    assert "b = {like = " in dumped["select"] or "a = {like = " in dumped["select"]
    assert to_bytes(resume("select", dumped["select"], machine)) == to_bytes(program)


def test_these_texts_hold_every_binding() -> None:
    machines = {name: load_machine(name) for _, name in MODELS.values()}
    selections = [parse_selection(text_of(model, machines[name]), machines[name]) for model, name in MODELS.values()]
    steps = [step for selection in selections for cover in selection.covers for step in cover.steps]
    bound = {type(binding) for step in steps for binding in step.inputs.values()}
    assert bound == set(get_args(Binding)) - {Idle}


# -- one convolution by hand -------------------------------------------------------------------------------------------


def convolution() -> str:
    machine = load_machine("base16")
    network = network_for(machine, 1)
    output = network.conv(network.input(1, 3, 8, 8), 16, (3, 3), pad=1)
    dumped: dict[str, str] = {}
    resume("lower", print_nests(network.program(output)), machine, dump=dumped.__setitem__)
    return dumped["select"]


def test_a_step_reads_as_one_line() -> None:
    text = convolution()
    assert text[text.index('  "select.cover"') : text.rindex("}) {machine")] == (
        '  "select.cover"() ({\n'
        '    %t0 = "select.mma"() {statement = "c = wrap(sum(dot(a, w)), acc)", '
        'inputs = {a = {tensor = "x"}, w = {constant_matrix = "w"}}, immediates = {}, reduces = true, words = 576} '
        ": () -> !select.acc\n"
        '    %conv0 = "select.requantize"() '
        '{statement = "y = clamp(round_shift((a + p.bias) * p.scale, p.shift) + zero, low, high)", '
        'inputs = {a = {step = "t0"}, p = {parameters = {bias = "bias", scale = "scale", shift = "shift"}}}, '
        "immediates = {zero = 3, low = -128, high = 127}, reduces = false, words = 64} : () -> !select.act\n"
        '  }) {nest = "conv0"} : () -> ()\n'
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{nest = "conv0"}', '{nest = "conv1"}', "a cover is of nest 'conv1'; expected that of 'conv0'"),
        ('"select.cover"', '"select.covers"', "expected a 'select.cover' with steps, got 'select.covers'"),
        (
            '"select.program"',
            '"tile.program"',
            "expected a 'select.program' with nests and their covers, got 'tile.program'",
        ),
        ("%t0 =", "%t1 =", "nest 'conv0': select.mma computes %t1 in acc; expected %t0 in acc"),
        (
            "-> !select.act",
            "-> !select.acc",
            "nest 'conv0': select.requantize computes %conv0 in acc; expected %conv0 in act",
        ),
        (
            "c = wrap(sum(dot(a, w)), acc)",
            "c = dot(a, w)",
            "nest 'conv0': select.mma: its statement is `c = dot(a, w)`; the machine's is "
            "`c = wrap(sum(dot(a, w)), acc)`",
        ),
        (
            '{a = {tensor = "x"}, w',
            '{b = {tensor = "x"}, w',
            "nest 'conv0': select.mma: its inputs are b, w; expected a, w",
        ),
        (
            "{zero = 3, low",
            "{low",
            "nest 'conv0': select.requantize: its immediates are low, high; expected high, low, zero",
        ),
        (
            '{tensor = "x"}',
            '{tensor = "y"}',
            "nest 'conv0': select.mma: there is no tensor 'y'; there are: x, w, bias, scale, shift",
        ),
        (
            '{step = "t0"}',
            '{step = "conv0"}',
            "nest 'conv0': select.requantize: there is no step 'conv0'; there are: t0",
        ),
        (
            '{tensor = "x"}',
            '{tensors = "x"}',
            "nest 'conv0': select.mma: a reads tensors; expected one of tensor, step, constant_matrix, "
            "computed_matrix, parameters, table, like",
        ),
        (
            'shift = "shift"}}',
            'shift = "shift"}, free = ["zero"]}',
            "nest 'conv0': select.requantize: p has no fields zero that could be free",
        ),
        (
            '{bias = "bias", ',
            "{",
            "nest 'conv0': select.requantize: its fields of p are scale, shift; expected bias, scale, shift",
        ),
    ],
)
def test_names_a_fault_of_the_text(old: str, new: str, message: str) -> None:
    head, cover, steps = convolution().partition('  "select.cover"')
    steps = cover + steps
    changed = head + steps.replace(old, new, 1) if old in steps else head.replace(old, new, 1) + steps
    with pytest.raises(CompileError, match=f"^(line \\d+: )?{re.escape(message)}$"):
        parse_selection(changed, load_machine("base16"))


def test_a_nest_without_a_cover_is_a_fault() -> None:
    text = convolution()
    first, last = text.index('  "select.cover"'), text.rindex("}) {machine")
    with pytest.raises(CompileError, match="^1 nests have 0 covers; expected one for each$"):
        parse_selection(text[:first] + text[last:], load_machine("base16"))


def test_refuses_another_machine() -> None:
    message = "^the text is for machine base16, whose description differs from tiny8's$"
    with pytest.raises(CompileError, match=message):
        parse_selection(convolution(), load_machine("tiny8"))
