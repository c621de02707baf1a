"""Accesses: footprints equal the words that a plain loop touches, columns say the same, and sets of words are runs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler.tile_programs import random_tiles
from tilewright.compiler.tile import accesses as accesses_module
from tilewright.compiler.tile.accesses import (
    Accesses,
    Loops,
    Mask,
    WordForms,
    affine_mask,
    operation_footprints,
    program_accesses,
)
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.files.loader import load_machine

Shown = list[tuple[str, bool, bool, int, list[bool]]]
"""Of one operation, what a `Footprint` says of each operand."""


@pytest.mark.parametrize("seed", range(3))
def test_those_of_a_program_are_those_of_its_operations(seed: int) -> None:
    """Operations that differ only in their bases are among them."""
    tiles = random_tiles(load_machine("base16"), seed, steps=30)
    twice = replace(tiles, operations=(*tiles.operations, *tiles.operations))
    assert shown(twice, program_accesses(twice)) == expected(twice)


def test_follow_another_order() -> None:
    tiles = random_tiles(load_machine("base16"), seed=4, steps=30)
    tiles.of_order(program_accesses)
    backwards = tiles.in_order(range(len(tiles.operations))[::-1])
    assert shown(backwards, backwards.of_order(program_accesses)) == expected(tiles)[::-1]


def test_masks_are_made_once_for_all_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = random_tiles(load_machine("base16"), seed=4, steps=30)
    made: list[tuple[int, Loops]] = []
    make = accesses_module.affine_mask

    def noted(block: int, loops: Loops) -> Mask:
        made.append((block, loops))
        return make(block, loops)

    monkeypatch.setattr(accesses_module, "affine_mask", noted)
    tiles.of_order(program_accesses)
    tiles.in_order(range(len(tiles.operations))[::-1]).of_order(program_accesses)
    assert 0 < len(made) == len(set(made)) < len(tiles.operations)


def test_a_program_without_operations_has_none() -> None:
    tiles = replace(random_tiles(load_machine("tiny8"), seed=0), operations=())
    accesses = program_accesses(tiles)
    assert accesses.begins.tolist() == [0]
    assert len(accesses.first) == len(accesses.operation) == len(accesses.forms.lengths) == len(accesses.forms.steps)


def expected(program: TileProgram) -> list[Shown]:
    return [
        [
            (f.buffer, f.is_read, f.is_write, f.first, f.mask.tolist())
            for f in operation_footprints(program.machine, own)
        ]
        for own in program.operations
    ]


def shown(program: TileProgram, accesses: Accesses) -> list[Shown]:
    """All that the columns say, of each operation."""
    found: list[Shown] = [[] for _ in program.operations]
    names = list(program.buffers)
    for at, operation in enumerate(accesses.operation.tolist()):
        words = mask(accesses.forms, int(accesses.form[at])).tolist()
        does = bool(accesses.is_read[at]), bool(accesses.is_write[at])
        found[operation].append((names[accesses.buffer[at]], *does, int(accesses.first[at]), words))
    return found


def mask(forms: WordForms, number: int) -> NDArray[np.bool_]:
    words = np.zeros(forms.lengths[number], np.bool_)
    for run in range(forms.begins[number], forms.begins[number + 1]):
        words[forms.starts[run] : forms.stops[run]] = True
    return words


def forms_of(*masks: NDArray[np.bool_]) -> WordForms:
    return WordForms.of([np.flatnonzero(mask[1:] != mask[:-1]) + 1 for mask in masks], [len(mask) for mask in masks])


@pytest.mark.parametrize(
    ("bits", "step"),
    [
        ("1100 0011", 2),
        ("1111 0000 0000 1111", 4),
        ("111 000 111", 3),
        ("11 00 11 00 1", 1),  # the last group is half as long
        ("1 000 1", 1),
        ("11 0 1", 1),  # both runs end after an even number of words
        ("1111", 4),
    ],
)
def test_finds_the_largest_groups_of_equal_words(bits: str, step: int) -> None:
    own = np.array([bit == "1" for bit in bits.replace(" ", "")])
    forms = forms_of(own)
    assert forms.steps.tolist() == [step]
    assert mask(forms, 0).tolist() == own.tolist()


def test_tells_forms_apart() -> None:
    masks = []
    for step in range(1, 65):
        own = np.ones(3 * step, np.bool_)
        own[step : 2 * step] = False
        masks.append(own)
    forms = forms_of(*masks)
    assert forms.steps.tolist() == list(range(1, 65))
    assert [mask(forms, number).tolist() for number in range(64)] == [own.tolist() for own in masks]


def words(block: int, loops: tuple[tuple[int, int], ...]) -> set[int]:
    """Every word, one iteration after the other."""
    found = set()
    for indices in itertools.product(*(range(trip) for trip, _ in loops)):
        start = sum(index * stride for index, (_, stride) in zip(indices, loops, strict=True))
        found |= set(range(start, start + block))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_equals_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops = tuple((int(rng.integers(1, 8)), int(rng.integers(-9, 10))) for _ in range(rng.integers(0, 4)))
    block = int(rng.integers(1, 4))
    first, mask, edges = affine_mask(block, loops)
    assert edges.tolist() == [word for word in range(1, len(mask)) if mask[word] != mask[word - 1]]
    assert {first + int(offset) for offset in np.flatnonzero(mask)} == words(block, loops)


def test_the_example_of_the_file() -> None:
    first, mask, _ = affine_mask(1, ((3, 1), (2, 8)))
    assert first == 0
    assert np.flatnonzero(mask).tolist() == [0, 1, 2, 8, 9, 10]
