"""The work of single instructions, by hand; what programs take of it, `tests/simulator/test_profile.py` has."""

from __future__ import annotations

import pytest

from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.templates.table import works_of
from tilewright.isa.templates.work import Work
from tilewright.isa.timing import MMA_WEIGHT_LEAD, mma_write

MACHINE = load_machine("tiny8")  # 8×8 array, 8 bytes a beat


def instruction(mnemonic: str, **fields: int) -> Instruction:
    return make_instruction(MACHINE.format(mnemonic), {name.replace("_", "."): at for name, at in fields.items()})


def work(mnemonic: str, **fields: int) -> Work:
    (found,) = works_of(MACHINE, [instruction(mnemonic, **fields)])
    return found


@pytest.mark.parametrize(("base", "beats"), [(0, 3), (8, 3), (4, 4), (4096 + 4, 4)])
def test_a_run_takes_the_beats_that_it_overlaps(base: int, beats: int) -> None:
    found = work("load_act", trip_k=3, d_base=base, d_k=8, y_k=1)
    assert (found.read_beats, found.write_beats, found.bytes_written) == (beats, 0, 0)


def test_a_store_writes_its_words() -> None:
    found = work("store_act", trip_k=3, d_base=4, d_k=16, y_k=1)
    assert (found.read_beats, found.write_beats, found.bytes_written) == (0, 6, 24)


@pytest.mark.parametrize(("vectors", "of_a_tile"), [(20, 20), (5, 8)])
def test_a_weight_tile_takes_its_vectors_or_the_rows_of_the_next(vectors: int, of_a_tile: int) -> None:
    found = work("mma", trip_k=3, trip_x=vectors)
    assert (found.vectors, found.weight_rows) == (3 * vectors, 3 * 8)
    assert found.busy == MMA_WEIGHT_LEAD + 2 * of_a_tile + vectors
    assert found.complete - found.busy == mma_write(MACHINE.array)


def test_only_the_first_product_of_a_sum_reads_no_sum() -> None:
    reads = [
        [access.times for access in work("mma", trip_k=3, trip_x=5, accumulate=adds).accesses if not access.is_write]
        for adds in (0, 1)
    ]
    assert reads == [[15, 24, 10], [15, 24, 15]]


def test_the_first_result_comes_behind_the_words_that_it_is_made_of() -> None:
    *_, written = work("max_pool", trip_c=2, trip_r=2, trip_s=3).accesses
    assert (written.times, written.end - written.begin) == (2, 12 - 5)


def test_instructions_that_are_alike_share_their_work() -> None:
    places = ((0, 0), (4096, 9), (4, 0))
    alike = [instruction("load_act", trip_k=3, d_base=base, d_k=8, y_base=to) for base, to in places]
    first, second, third = works_of(MACHINE, alike)
    assert first is second
    assert first != third
