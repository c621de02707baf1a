"""Nests that are equal but for names have one canonical form, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import axis, network_for
from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.nest.canonical_nests import canonical_nests, stored_facts
from tilewright.compiler.nest.nest import Access, BufferPart, Nest, NestLoop, NestProgram
from tilewright.compiler.select.selector import FormsOfNests


def network(seed: int = 0, kernel: int = 3, channels: int = 16, zero: int = 3) -> NestProgram:
    """A convolution, and its result added to its input."""
    network = network_for(machine("tiny8"), seed)
    x = network.input(1, 16, 6, 6)
    y = network.conv(x, channels, (kernel, kernel), pad=kernel // 2, zero=zero)
    return network.program(network.add(y, x) if channels == 16 else y)


def renamed(program: NestProgram, new: Callable[[str], str] = "other {}".format) -> NestProgram:
    """The same with other names of tensors and nests."""

    def of(access: Access) -> Access:
        return replace(access, tensor=new(access.tensor))

    def of_nest(nest: Nest) -> Nest:
        reads = {name: of(access) for name, access in nest.reads.items()}
        return replace(nest, name=new(nest.name), nodes=(new(nest.name),), reads=reads, result=of(nest.result))

    return replace(
        program,
        name=new(program.name),
        nests=tuple(map(of_nest, program.nests)),
        buffers={new(name): replace(buffer, name=new(name)) for name, buffer in program.buffers.items()},
        constants={new(name): values for name, values in program.constants.items()},
        constant_types={new(name): of for name, of in program.constant_types.items()},
        inputs=tuple([replace(tensor, name=new(tensor.name)) for tensor in program.inputs]),
        outputs=tuple([replace(tensor, name=new(tensor.name)) for tensor in program.outputs]),
    )


def form(program: NestProgram) -> CanonicalForm:
    return canonical_nests(program.nests, lambda nest: nest.expr, partial(stored_facts, program))


def seen_by_selection(program: NestProgram) -> list[CanonicalForm]:
    forms = FormsOfNests(program)
    return [forms.of(nest) for nest in program.nests]


def in_nest(at: int, change: Callable[[Nest], Nest]) -> Callable[[NestProgram], NestProgram]:
    def changed(program: NestProgram) -> NestProgram:
        return replace(program, nests=(*program.nests[:at], change(program.nests[at]), *program.nests[at + 1 :]))

    return changed


def with_read(name: str, **changes: object) -> Callable[[NestProgram], NestProgram]:
    def change(nest: Nest) -> Nest:
        access = replace(nest.reads[name], **changes)  # type: ignore[arg-type]
        return replace(nest, reads={**nest.reads, name: access})

    return in_nest(0 if name in "xw" else 1, change)


def with_operands_exchanged(nest: Nest) -> Nest:
    return replace(nest, reads={**nest.reads, "a": nest.reads["b"], "b": nest.reads["a"]})


def with_part(program: NestProgram) -> NestProgram:
    """The sum's result has the input as a part."""
    name = program.nests[1].result.tensor
    parts = (BufferPart(program.inputs[0].name, (0, 0, 0, 0)),)
    return replace(program, buffers={**program.buffers, name: replace(program.buffers[name], parts=parts)})


ROWS = axis(("y", 1), ("r", 1), plus=-2)

OTHERS: dict[str, Callable[[NestProgram], NestProgram]] = {
    "a longer loop": in_nest(1, lambda nest: replace(nest, loops=(NestLoop("n", 2), *nest.loops[1:]))),
    "a loop that sums": in_nest(1, lambda nest: replace(nest, loops=(NestLoop("n", 1, True), *nest.loops[1:]))),
    "operands in another order": in_nest(1, with_operands_exchanged),
    "one operand twice": with_read("a", tensor="in0"),
    "a read more": in_nest(1, lambda nest: replace(nest, reads={**nest.reads, "c": nest.reads["a"]})),
    "a read of another name": in_nest(
        1, lambda nest: replace(nest, reads={"c" if name == "b" else name: of for name, of in nest.reads.items()})
    ),
    "another index": lambda program: with_read(
        "x", index=(*program.nests[0].reads["x"].index[:2], ROWS, program.nests[0].reads["x"].index[3])
    )(program),
    "nothing outside": with_read("x", outside=None),
    "another result": in_nest(1, lambda nest: replace(nest, result=replace(nest.result, tensor="in0"))),
    "another expression": in_nest(1, lambda nest: replace(nest, expr=nest.expr.args[0])),
    "a nest less": lambda program: replace(program, nests=program.nests[:1]),
    "nests in another order": lambda program: replace(program, nests=program.nests[::-1]),
    "another shape": lambda program: replace(
        program, buffers={**program.buffers, "in0": replace(program.buffers["in0"], shape=(1, 16, 6, 7))}
    ),
    "a constant of another shape": lambda program: replace(
        program, constants={**program.constants, "conv0.bias": program.constants["conv0.bias"][:8]}
    ),
    "a buffer in place of a constant": lambda program: replace(
        program,
        constants={name: values for name, values in program.constants.items() if name != "conv0.bias"},
        buffers={**program.buffers, "conv0.bias": replace(program.buffers["in0"], shape=(16,))},
    ),
    "an input as a part": with_part,
}


def test_other_names_are_the_same_form() -> None:
    one, other = form(network()), form(renamed(network()))
    assert one == other and hash(one) == hash(other)
    assert other.names_from(one) == {name: f"other {name}" for name in one.names}
    assert seen_by_selection(network()) == seen_by_selection(renamed(network()))


def test_names_in_another_order_are_the_same_form() -> None:
    names = sorted({*network().buffers, *network().constants})
    other = renamed(network(), lambda name: f"{1000 - names.index(name)}" if name in names else name)
    assert form(network()) == form(other)
    assert seen_by_selection(network()) == seen_by_selection(other)


@pytest.mark.parametrize("case", OTHERS)
def test_other_nests_have_another_form(case: str) -> None:
    assert form(OTHERS[case](network())) != form(network())


def test_values_of_constants_matter_to_nobody_who_does_not_ask() -> None:
    program = network()
    bias = program.constants["conv0.bias"]
    assert form(replace(program, constants={**program.constants, "conv0.bias": bias + 1})) == form(program)


def of_selection(program: NestProgram, changed: NestProgram) -> list[bool]:
    """Whether each nest still has its form."""
    return [one == other for one, other in zip(seen_by_selection(program), seen_by_selection(changed), strict=True)]


def test_selection_sees_limits_of_constants_and_not_their_elements() -> None:
    program = network()
    weights = program.constants["conv0.w"]
    turned = replace(program, constants={**program.constants, "conv0.w": weights[::-1]})
    halved = replace(program, constants={**program.constants, "conv0.w": weights // 2})
    assert of_selection(program, turned) == [True, True]
    assert of_selection(program, halved) == [False, True]


def test_selection_sees_numbers_in_expressions_and_beyond_the_edges() -> None:
    program = network()
    assert of_selection(program, network(zero=4)) == [False, True]
    assert of_selection(program, with_read("x", outside=7)(program)) == [False, True]


def test_selection_does_not_see_at_which_pixel_a_nest_begins() -> None:
    program = network()
    index = program.nests[1].reads["a"].index
    lower = with_read("a", index=(*index[:2], axis(("y", 1), plus=2), index[3]))(program)
    other_channels = with_read("a", index=(index[0], axis(("o", 1), plus=8), *index[2:]))(program)
    assert of_selection(program, lower) == [True, True]
    assert of_selection(program, other_channels) == [True, False]
