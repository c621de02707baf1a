"""Texts of nests that break a rule are refused with the rule and the line; what passes give keeps all rules."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder, add_conv, conv_model, pool_model, rescaled, residual_model
from tests.compiler.pipelines import lowered
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import NESTS
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.rules import RULES
from tilewright.compiler.rules import BrokenRule
from tilewright.isa.files.loader import load_machine

MODELS = {
    "conv": lambda rng: conv_model(rng, 16, pads=[1, 1, 1, 1]),
    "pool": pool_model,
    "residual": residual_model,
}

BROKEN = [
    (
        "tensors",
        "conv",
        "memref<1x16x8x8xi8>",
        "memref<1x16x8x99999999xi8>",
        "buffer x: rule tensors: its shape is [1, 16",
    ),
    ("constants", "conv", "memref<5xui6>", "memref<5xui4>", "constant conv.shift: rule constants: its values are from"),
    ("hosts", "conv", 'outputs = [{name = "result"', 'outputs = [{name = "y"', "output 'y': rule hosts: has no buffer"),
    (
        "hosts",
        "conv",
        "stored = [1, 5, 8, 8]",
        "stored = [1, 5, 8, 9]",
        "is stored as [1, 5, 8, 9]; expected the buffer",
    ),
    ("products", "conv", "macs = ", "macs = -", "nest 'conv': rule products: macs is -46080; expected a number of"),
    ("loops", "conv", '"o 5"', '"o 0"', "nest 'conv': rule loops: 0 trips of o; expected from 1 up to 67,108,864"),
    ("loops", "conv", '"s 3 reduce"', '"s 3 reduce", "o 1"', "nest 'conv': rule loops: 2 loops are o; expected one"),
    ("accesses", "conv", 'w = "o, i, r, s"', 'w = "o, i, r"', "w: conv.weight has 4 dimensions, got 3 indices"),
    (
        "accesses",
        "conv",
        "y + r - 1,",
        "y + y,",
        "x: an index has the loops y, y; expected some of n, o, y, x, i, r, s",
    ),
    (
        "expressions",
        "conv",
        "(sum(x * w) + bias)",
        "sum(x * w)",
        "rule expressions: the expression does not read 'bias'",
    ),
    ("reductions", "conv", "sum(x * w)", "x * w", "rule reductions: the expression depends on i, r, s outside of a"),
    ("reductions", "conv", " reduce", "", "rule reductions: 1 reductions over the reduce loops none; expected one"),
    ("taps", "conv", 'w = "o, i, r, s"', 'w = "o, i, r + 1, s outside 0"', "w reads conv.weight along 2 from 1 to 3"),
    ("reads", "pool", '"n, o, 2*y + r, 2*x + s"', '"n, o, 2*y + r, 2*x + s + 1"', "a reads x along 3 from 1 to 8"),
    ("outsides", "conv", '"o, i, r, s"', '"o, i, r, s outside 128"', "w is 128 outside of conv.weight; expected [-128"),
    ("results", "conv", 'result = "n, o, y, x"', 'result = "n, o, y, x + 1"', "it writes result along 3 from 1 to 8"),
    ("results", "conv", 'result = "n, o, y, x"', 'result = "n, o, y, 0"', "loop x moves 0 dimensions of the result"),
    (
        "results",
        "conv",
        'result = "n, o, y, x"',
        'result = "i, o, y, x"',
        "rule results: it writes result along 0 from 0 to 15",
    ),
    ("order", "conv", '"x 8"', '"x 7"', "output 'result': rule order: no nest writes some of its elements"),
    ("ranges", "conv", "x = [-128, 127]", "x = [-100, 127]", "the range of x is [-100, 127]; expected one that holds"),
    ("sums", "conv", "sum = [-", "sum = [", "rule sums: the range of sum is"),
    ("values", "conv", ", 127)", ", 128)", "its values are [-128, 128]; expected those of result, int8: [-128, 127]"),
]


@cache
def text_of(model: str) -> str:
    return NESTS.print(lowered(MODELS[model](np.random.default_rng(0))))


@pytest.mark.parametrize(("rule", "model", "old", "new", "message"), BROKEN)
def test_a_broken_rule_is_named_with_its_line(rule: str, model: str, old: str, new: str, message: str) -> None:
    text = text_of(model)
    assert old in text
    with pytest.raises(BrokenRule) as refused:
        NESTS.read(text.replace(old, new), load_machine("tiny8"))
    assert refused.value.rule == rule
    assert message in str(refused.value)
    assert str(refused.value).startswith("line ")


def test_an_access_that_leaves_its_tensor_must_say_what_is_outside() -> None:
    text = text_of("conv")
    outside = text[text.index(" outside ") : text.index('"', text.index(" outside "))]
    number = 1 + next(n for n, line in enumerate(text.splitlines()) if outside in line)
    with pytest.raises(CompileError) as refused:
        NESTS.read(text.replace(outside, ""), load_machine("tiny8"))
    assert str(refused.value) == (
        f"line {number}: nest 'conv': rule reads: x reads x along 2 from -1 to 8; expected indices below 8, or what is "
        "`outside`"
    )


def joined_twice() -> NestProgram:
    """Three channels beside three, and these six beside three again: copies with gaps up to whole words."""
    builder = ModelBuilder(np.random.default_rng(0))
    parts = [builder.quantize(builder.input(name, [1, 3, 4, 4]), 0.1, name=f"{name}.q") for name in "xyz"]
    first = builder.quantize(builder.node("Concat", parts[:2], name="first", axis=1), 0.1)
    both = builder.quantize(builder.node("Concat", [first, parts[2]], name="second", axis=1), 0.1)
    builder.output(add_conv(builder, both, 9, 8, 1, name="reader"))
    return lowered(rescaled(builder.build("joined")))


def test_a_copy_of_a_gap_is_a_gap() -> None:
    program = joined_twice()
    NESTS.require(program)
    assert any(name.endswith(".apart") for name in program.buffers)


def test_a_copied_gap_is_read_by_nothing_that_gives_it_a_weight() -> None:
    program = joined_twice()
    reader = program.nests[-1]
    (weights,) = (a.tensor for a in reader.reads.values() if program.constants.get(a.tensor, np.zeros(0)).ndim == 4)
    full = {**program.constants, weights: np.ones_like(program.constants[weights])}
    with pytest.raises(BrokenRule, match="nest 'reader': rule order: x reads elements of .*apart that no nest before"):
        NESTS.require(replace(program, constants=full))


def test_every_rule_has_a_text_that_breaks_it() -> None:
    assert {rule.name for rule in RULES} - {rule for rule, *_ in BROKEN} == {"tables"}  # next to their lowering


@pytest.mark.parametrize("model", MODELS)
def test_what_lowering_gives_keeps_the_rules(model: str) -> None:
    NESTS.read(text_of(model), load_machine("tiny8"))
