"""What programs need of instructions, and instructions with no more."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.codesign.advise.test_advice import network
from tests.codesign.specialise.test_candidates import depthwise
from tests.compiler.models import random_inputs
from tests.compiler.pipelines import base16, simulated
from tilewright.codesign.advise.changes import Change, Way
from tilewright.codesign.advise.trials import Bench, Trial
from tilewright.codesign.points.network import Network
from tilewright.codesign.specialise.less import with_less
from tilewright.codesign.specialise.removals import _at_once
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat


def changes(
    mnemonic: str, trips: Mapping[str, int] | None = None, values: Mapping[str, tuple[int, int]] | None = None
) -> dict[str, Change]:
    """Of base16, where one instruction is in a program, with these trips of its loops and values of its immediates."""
    longest = {} if trips is None else {mnemonic: trips}
    held = {mnemonic: {name: list(of) for name, of in (values or {}).items()}}
    base = Trial(None, None, (network(1000),), {}, "", {"n": {mnemonic: {"layer": 1}}}, longest, held)
    return {change.name: change for change in with_less(base16(), base)}


def made(change: Change, mnemonic: str) -> InstructionFormat:
    return change.apply(base16()).format(mnemonic)


def test_loops_that_no_program_repeats_can_go() -> None:
    found = changes("max_pool", {"c": 1, "y": 7, "x": 8, "r": 1, "s": 2})

    format = made(found["loops c, r of max_pool"], "max_pool")

    assert [(loop.name, loop.is_reduce) for loop in format.loops] == [("y", False), ("x", False), ("s", True)]
    assert format.destination.loops == ("y", "x") and format.sources[0].loops == ("y", "x", "s")


def test_loops_count_no_further_than_programs() -> None:
    """7 + 9 + 7 + 3 + 3 bits fewer: 2 iterations are counted with 1 bit, 5 with 3."""
    found = changes("max_pool", {"c": 2, "y": 2, "x": 5, "r": 2, "s": 2})
    format = made(found["29 bits of the loops of max_pool"], "max_pool")
    assert [loop.bits for loop in format.loops] == [1, 1, 3, 1, 1]


def test_an_immediate_of_one_value_is_a_number() -> None:
    found = changes("requantize", values={"zero": (-128, -128), "low": (-128, 0), "high": (127, 127)})

    format = made(found["immediates zero = -128, high = 127 of requantize"], "requantize")

    assert list(format.immediates) == ["low"]
    assert {-128, 127} <= {node.value for node in walk(format.statement.expr) if node.op is Op.CONST}


def test_immediates_have_the_bits_of_their_values() -> None:
    """A zero point from -4 to 3 has 3 bits, a scale up to 1,000 has 10, a shift up to 15 has 4: 5 + 6 + 2 fewer."""
    values = {"a_zero": (-4, 3), "scale": (7, 1000), "shift": (1, 15), "zero": (-128, 0), "low": (-128, 0)}
    values["high"] = (0, 127)
    format = made(changes("rescale", values=values)["13 bits of the immediates of rescale"], "rescale")
    assert {name: str(of) for name, of in format.immediates.items()} == {
        "a_zero": "int3", "scale": "uint10", "shift": "uint4", "zero": "int8", "low": "int8", "high": "int8"
    }  # fmt: skip


def test_a_field_that_is_added_can_go() -> None:
    format = made(changes("requantize")["p.bias of requantize"], "requantize")
    fields = {node.field for node in walk(format.statement.expr) if node.field}
    assert fields == {"scale", "shift"}


def test_an_operand_that_is_multiplied_by_nothing_can_go() -> None:
    """`add` with b_scale 0 in all programs rescales a."""
    found = changes("add", values={"b_scale": (0, 0), "a_scale": (1, 9), "shift": (3, 3)})
    format = made(found["b of add"], "add")
    assert [operand.name for operand in format.sources] == ["a"]
    assert "b_zero" not in format.immediates and "b_scale" not in format.immediates
    assert "b of add" not in changes("add", values={"b_scale": (0, 1)})


def test_a_sum_that_is_multiplied_has_fewer_bits() -> None:
    """Of 33 bits 24 are left."""
    format = made(changes("requantize")["9 bits of a + p.bias in requantize"], "requantize")
    (product,) = [node for node in walk(format.statement.expr) if node.op is Op.MUL]
    assert product.args[0].range.bits == 24


def test_changes_that_contradict_each_other_are_not_made_at_once() -> None:
    """Of two statements the first; of a loop that goes and one that gets shorter, too; others together."""
    overs: list[Mapping[str, object]] = [
        {"do": "y = a"}, {"do": "y = b"}, {"loops": {"i": None}}, {"imm": {"zero": "int4"}}
    ]  # fmt: skip
    of = [Change(str(over), Way.WITHOUT, {"instructions": {"one": over}}) for over in overs]
    other = Change("other", Way.WITHOUT, {"instructions": {"two": {"do": "y = a"}}, "wait_bits": 8})
    assert _at_once([of[0], of[1], of[2], other]) == [of[0], other]
    assert _at_once([of[2], of[3], of[2], other]) == [of[2], of[3], other]


@pytest.mark.slow
def test_bits_stay_whatever_goes() -> None:
    """Each machine with less that the network compiles for computes what base16 does; one at least has narrow sums."""
    model = depthwise(16)
    inputs = random_inputs(model, np.random.default_rng(0))
    whole = compile_model(model, base16())
    expected = {name: value.tolist() for name, value in simulated(whole, inputs).items()}
    base = Bench(base16(), (Network("n", model.SerializeToString()),), 0, False).trial(None)
    ran = set()
    for change in with_less(base16(), base):
        try:
            program = compile_model(model, change.apply(base16()))
        except CompileError:
            continue
        assert {name: value.tolist() for name, value in simulated(program, inputs).items()} == expected, change.name
        ran.add(change.name)
    assert "9 bits of a + p.bias in requantize" in ran and len(ran) > 8
