"""What the array needs at least is the sum of its products, by hand, and never more than a program takes."""

from __future__ import annotations

from programs.networks.array_bound import ProductLayer, layers, row
from tilewright.isa.files.loader import load_machine


def test_adds_up_the_products_of_the_layers() -> None:
    """125 pixels; 40 taps, or 64 channels, in blocks of 16; four tiles of results, and twelve words at the end."""
    found = list(layers("ds-cnn"))
    apart = [layer.cycles(16, 16) for layer in found if layer.is_depthwise]
    assert apart == [125 * 9 * 4] * 4
    assert sum(layer.cycles(16, 16) for layer in found) - sum(apart) == 125 * 3 * 4 + 4 * 125 * 4 * 4 + 4


def test_an_exchange_takes_a_cycle_for_each_element_in_and_out() -> None:
    """Of 16 pixels that the array reads at once, 14 have all three taps of the row; three rows of the window."""
    layer = ProductLayer("x", (3, 3), 9, 64, is_depthwise=True, read=64 * 140, made=64 * 140)
    assert layer.exchanged_cycles(16, 16) == 2 * 64 * 140 + 64 * 140 // 14 * 3


def test_no_program_takes_fewer_cycles() -> None:
    columns = [column.strip().replace(",", "") for column in row("ds-cnn", load_machine("base16"), False).split("|")]
    assert int(columns[4]) <= int(columns[5])
