"""Stand-ins: the same for networks that differ in weights, numbers and names, and as good as these for a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler.machines import machine
from tests.compiler.models import small_cnn
from tests.compiler.nests import network_for
from tilewright.compiler.nest.nest import Access, Affine, NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.stand_in import StandIn, stand_in
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.canonical_tiles import canonical_tiles
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.language.expressions import const

OF = machine("tiny8")
LANES = OF.lanes


def two_convolutions(seed: int = 0, size: int = 6) -> NestProgram:
    """The first one's weights have several tiles; the second one reads beyond the edges."""
    network = network_for(OF, seed)
    first = network.conv(network.input(1, 2 * LANES, size, size), 2 * LANES, (1, 1))
    return network.program(network.conv(first, 2 * LANES, (3, 3), pad=1))


def made_of(program: NestProgram) -> StandIn:
    return stand_in(select(program, OF))


def with_constants(program: NestProgram, constants: Mapping[str, NDArray[Any]]) -> NestProgram:
    return replace(program, constants={**program.constants, **constants})


def covered(model: bytes, of: str) -> Selection:
    found: dict[str, Any] = {}
    compile_model(model, machine(of), Options(effort=0), keep=found.__setitem__)
    selection = found["select"]
    assert isinstance(selection, Selection)
    return selection


def small(seed: int) -> bytes:
    """A network with weights, scales and zero points of its own."""
    return small_cnn(np.random.default_rng(seed)).SerializeToString()


# -- what does not matter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["tiny8", "base16", "small memories"])
def test_a_network_that_is_trained_again_has_the_same_stand_in(of: str) -> None:
    first, second = (covered(small(seed), of) for seed in range(2))
    weights = "conv2.weight"
    assert first.program.constants[weights].tolist() != second.program.constants[weights].tolist()
    one, other = stand_in(first), stand_in(second)
    assert one.key == other.key
    assert one.selection.covers == other.selection.covers
    constants = one.selection.program.constants, other.selection.program.constants
    assert constants[0].keys() == constants[1].keys()
    for name in constants[0]:
        assert constants[0][name].tolist() == constants[1][name].tolist(), name


def test_names_do_not_matter() -> None:
    """Also if they come in another order."""
    program = two_convolutions()
    tensors = sorted({*program.buffers, *program.constants})
    names = dict(zip(tensors, reversed([f"other {name}" for name in tensors]), strict=True))
    made, other = made_of(program), made_of(renamed(program, names))
    assert other.key == made.key
    assert other.buffers == tuple(names[name] for name in made.buffers)
    assert other.nests == tuple(f"other {name}" for name in made.nests)


def test_the_value_beyond_the_edges_does_not_matter() -> None:
    assert made_of(with_outside(two_convolutions(), 17)).key == made_of(two_convolutions()).key


# -- what does ---------------------------------------------------------------------------------------------------------


def zero_tile(program: NestProgram) -> NestProgram:
    weights = program.constants["conv0.w"].copy()
    weights[:LANES, :LANES] = 0
    return with_constants(program, {"conv0.w": weights})


def equal_parameters(program: NestProgram) -> NestProgram:
    """The second convolution's requantisation is that of the first."""
    parts = ("bias", "scale", "shift")
    return with_constants(program, {f"conv1.{part}": program.constants[f"conv0.{part}"] for part in parts})


def buffers_turned(program: NestProgram) -> NestProgram:
    """By their order a planner decides between equals."""
    return replace(program, buffers=dict(reversed([*program.buffers.items()])))


@pytest.mark.parametrize("change", [zero_tile, equal_parameters, buffers_turned])
def test_what_a_plan_can_feel_is_seen(change: Callable[[NestProgram], NestProgram]) -> None:
    assert made_of(change(two_convolutions())).key != made_of(two_convolutions()).key


def test_other_sizes_and_machines_are_seen() -> None:
    other = machine("base16")
    keys = [made_of(two_convolutions(size=size)).key for size in (6, 7)]
    assert len({*keys, stand_in(select(two_convolutions(), other)).key}) == 3


def test_a_shift_that_two_layers_share_is_nothing() -> None:
    """Only words that are equal as a whole lie in one place."""
    program = two_convolutions()
    other = with_constants(program, {"conv1.shift": program.constants["conv0.shift"]})
    assert made_of(other).key == made_of(program).key


def test_whether_all_shifts_of_a_layer_are_equal_is_nothing() -> None:
    """Lowering has then one for all channels. The words hold the same fields, with a bias for each channel."""
    program = two_convolutions()
    first, second = program.nests
    shift = Access("conv1.shift", (Affine(()),))
    shared = with_constants(program, {"conv1.shift": np.array([25])})
    nests = (first, replace(second, reads={**second.reads, "shift": shift}))
    assert made_of(replace(shared, nests=nests)).key == made_of(program).key


def test_readers_that_want_other_values_beyond_the_edges_are_seen() -> None:
    network = network_for(OF, 0)
    read = network.input(1, LANES, 6, 6)
    program = network.program(*(network.conv(read, LANES, (3, 3), pad=1) for _ in range(2)))
    assert made_of(with_outside(program, 17)).key == made_of(program).key
    first = with_outside(replace(program, nests=program.nests[:1]), 17).nests
    assert made_of(replace(program, nests=(*first, *program.nests[1:]))).key != made_of(program).key


# -- what a search is given --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["tiny8", "base16", "small memories", "array 8x24, lanes 8"])
def test_its_tiles_differ_in_names_and_numbers_only(of: str) -> None:
    """So the program that a search measures is the one that is made."""
    selection = covered(small(0), of)
    assert canonical_tiles(tile(selection)) == canonical_tiles(tile(stand_in(selection).selection))


def test_zeros_stay_where_tiles_hold_nothing_else() -> None:
    program = zero_tile(two_convolutions())
    weights = made_of(program).selection.program.constants["c0"]
    expected = np.ones_like(weights, dtype=bool)
    expected[:LANES, :LANES] = False
    assert ((weights != 0) == expected).all()


def test_a_pattern_of_one_number_stays() -> None:
    """It moves channels, or takes a mean, and is not trained."""
    program, pattern = two_convolutions(), np.eye(2 * LANES, dtype=np.int8)[:, :, None, None]
    constants = made_of(with_constants(program, {"conv0.w": pattern})).selection.program.constants
    assert (constants["c0"] == pattern).all()


def test_no_number_of_the_network_is_left() -> None:
    """The expressions are gone, and every constant is filled anew."""
    program = two_convolutions()
    made = made_of(program).selection.program
    assert {nest.expr for nest in made.nests} == {const(0)}
    own = {values.tobytes() for values in program.constants.values()}
    assert own.isdisjoint(values.tobytes() for values in made.constants.values())


def test_options_have_the_names_of_either_side() -> None:
    made = made_of(two_convolutions())
    own = TilingOptions(0.25, "none", {"act": 64}, frozenset({"conv0"}), {"conv1": TileSizes({"o": 2}, True)})
    theirs = made.theirs(own)
    assert (theirs.off_chip, set(theirs.tiles)) == (frozenset({"b1"}), {"n1"})
    assert made.own(theirs) == own


# -- other programs ----------------------------------------------------------------------------------------------------


def with_outside(program: NestProgram, value: int) -> NestProgram:
    """The same with another value beyond the edges of what nests read."""
    nests = []
    for nest in program.nests:
        reads = {
            name: access if access.outside is None else replace(access, outside=value)
            for name, access in nest.reads.items()
        }
        nests.append(replace(nest, reads=reads))
    return replace(program, nests=tuple(nests))


def renamed(program: NestProgram, names: Mapping[str, str]) -> NestProgram:
    nests = [
        replace(
            nest,
            name=f"other {nest.name}",
            reads={key: replace(access, tensor=names[access.tensor]) for key, access in nest.reads.items()},
            result=replace(nest.result, tensor=names[nest.result.tensor]),
        )
        for nest in program.nests
    ]
    ends = [
        tuple(replace(tensor, name=names[tensor.name]) for tensor in of) for of in (program.inputs, program.outputs)
    ]
    return replace(
        program,
        nests=tuple(nests),
        buffers={names[name]: replace(buffer, name=names[name]) for name, buffer in program.buffers.items()},
        constants={names[name]: values for name, values in program.constants.items()},
        constant_types={names[name]: of for name, of in program.constant_types.items()},
        inputs=ends[0],
        outputs=ends[1],
    )
