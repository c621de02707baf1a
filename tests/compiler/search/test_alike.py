"""Parts that look alike: what a search found for one is that of the others, with their names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for
from tilewright.compiler.options import Options
from tilewright.compiler.search.alike import Alike, Found, Look, look_of
from tilewright.compiler.search.tuning import Tuning
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.selector import select
from tilewright.compiler.tiling.options import TileSizes, TilingOptions

CUT = TileSizes({"o": 2, "": 1}, True)


def convolution(seed: int = 0, size: int = 6) -> Selection:
    network = network_for(machine("tiny8"), seed)
    return select(network.program(network.conv(network.input(1, 16, size, size), 16, (1, 1))), machine("tiny8"))


def key(selection: Selection, options: Options | None = None) -> str:
    return look_of(selection, options or Options()).key


def test_what_was_found_has_the_names_of_the_other() -> None:
    alike = Alike()
    found = TilingOptions(0.25, "none", {"act": 64}, frozenset({"b"}), {"conv": CUT})
    alike.remember(lambda: Look("look", ("a", "b"), ("conv", "add")), Found(Tuning(found, 3)))
    there = replace(found, off_chip=frozenset({"d"}), tiles={"second": CUT})
    assert alike.recall(lambda: Look("look", ("c", "d"), ("second", "third"))) == Found(Tuning(there, 3))
    assert alike.recall(lambda: Look("another", ("c", "d"), ("second", "third"))) is None


def test_the_first_of_a_look_decides() -> None:
    alike, look = Alike(), Look("look", (), ())
    for loads in (3, 5):
        alike.remember(lambda: look, Found(Tuning(TilingOptions(), loads)))
    assert alike.recall(lambda: look) == Found(Tuning(TilingOptions(), 3))


def test_other_weights_look_alike() -> None:
    assert key(convolution(0)) == key(convolution(1))


def test_tiles_of_zeros_are_seen() -> None:
    selection = convolution()
    weights = next(name for name, values in selection.program.constants.items() if values.ndim == 4)
    values = np.array(selection.program.constants[weights])
    values[:8, :8] = 0
    program = replace(selection.program, constants={**selection.program.constants, weights: values})
    assert key(replace(selection, program=program)) != key(selection)


def test_other_sizes_and_options_look_different() -> None:
    keys = [key(convolution()), key(convolution(size=7)), key(convolution(), Options(effort=2))]
    keys += [key(convolution(), Options(tiling=TilingOptions(0.25)))]
    assert len(set(keys)) == 4


def test_options_that_only_say_where_to_keep_look_alike() -> None:
    assert key(convolution(), Options(tuning=Path("mine.json"), fails_on_miss=True)) == key(convolution())


@pytest.mark.parametrize("kept", [False, True])
def test_a_selection_with_other_names_looks_alike(kept: bool) -> None:
    """Also if these come in another order."""
    selection = convolution()
    looks = look_of(selection, Options())
    others = sorted((f"other {name}" for name in looks.tensors), reverse=not kept)
    names = dict(zip(sorted(looks.tensors), others, strict=True))
    other = look_of(_renamed(selection, names), Options())
    assert other.key == looks.key
    assert other.tensors == tuple(names[name] for name in looks.tensors)


def test_buffers_in_another_order_are_seen() -> None:
    """By it a planner decides between equals."""
    selection = convolution()
    program = selection.program
    assert len(program.buffers) > 1
    turned = replace(program, buffers=dict(reversed(program.buffers.items())))
    assert key(replace(selection, program=turned)) != key(selection)


def _renamed(selection: Selection, names: dict[str, str]) -> Selection:
    program = selection.program
    renamed = {
        id(nest): replace(
            nest,
            reads={key: replace(access, tensor=names[access.tensor]) for key, access in nest.reads.items()},
            result=replace(nest.result, tensor=names[nest.result.tensor]),
        )
        for nest in program.nests
    }
    ends = [
        tuple(replace(tensor, name=names[tensor.name]) for tensor in of) for of in (program.inputs, program.outputs)
    ]
    moved = replace(
        program,
        nests=tuple(renamed[id(nest)] for nest in program.nests),
        buffers={names[name]: replace(buffer, name=names[name]) for name, buffer in program.buffers.items()},
        constants={names[name]: values for name, values in program.constants.items()},
        constant_types={names[name]: of for name, of in program.constant_types.items()},
        inputs=ends[0],
        outputs=ends[1],
    )
    covers = tuple(replace(cover, nest=nest) for cover, nest in zip(selection.covers, moved.nests, strict=True))
    return replace(selection, program=moved, covers=covers)
