"""How long engines take for pieces beside each other, in examples that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.compiler.emission.merge import LAYERS_BESIDE
from tilewright.compiler.stripes.beside import BESIDE, StripePiece, cycles_beside
from tilewright.isa.files.loader import load_machine

ARRAY, VECTOR = (load_machine("dw16").engines[name] for name in ("mma", "vec"))


def product(cycles: float, behind: float = 0.0, reads: Sequence[int] = ()) -> StripePiece:
    """Products, and what the vector engine does behind them."""
    return StripePiece({ARRAY: cycles, VECTOR: behind} if behind else {ARRAY: cycles}, reads)


def vectors(cycles: float, reads: Sequence[int] = ()) -> StripePiece:
    """What only the vector engine does."""
    return StripePiece({VECTOR: cycles}, reads)


def test_a_piece_takes_what_its_busiest_engine_does() -> None:
    assert cycles_beside([product(100, 40)]) == pytest.approx(100)
    assert cycles_beside([product(40, 100)]) == pytest.approx(100)


def test_pieces_of_different_engines_go_on_beside_each_other() -> None:
    assert cycles_beside([vectors(100), product(60)]) == pytest.approx(100)


def test_a_piece_waits_for_what_it_reads() -> None:
    assert cycles_beside([product(60), vectors(100, reads=[0])]) == pytest.approx(160)


def test_what_keeps_more_engines_busy_goes_first() -> None:
    """The vector engine gives 20 of the product's 100 cycles to it. In the other 80 it does as much of its own, and
    the 20 that are left then."""
    assert cycles_beside([vectors(100), product(100, 20)]) == pytest.approx(120)


def test_so_many_pieces_behind_the_one_in_front_are_begun() -> None:
    """The product behind them begins when the first is done. Operations are ordered by the same rule."""
    assert BESIDE == LAYERS_BESIDE
    front = [vectors(10) for _ in range(BESIDE + 1)]
    assert cycles_beside([*front[1:], product(50)]) == pytest.approx(50)
    front = [vectors(10) for _ in range(BESIDE + 1)]
    assert cycles_beside([*front, product(50)]) == pytest.approx(60)
