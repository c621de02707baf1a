"""Energies of accesses: measured where they are measured, estimated with an error elsewhere, never less for more."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product

import pytest

from tilewright.codesign.price.access_energy import macro_energy, storage_energy
from tilewright.codesign.price.macros import MemoryPrice, memory_price, storage_price
from tilewright.codesign.price.process import Macro, load_process
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import load_machine

PROCESS = load_process()
MACROS = PROCESS.macros

WORDS = (1, 16, 63, 64, 65, 100, 128, 200, 256, 257, 500, 512, 700, 1024, 1025, 1300, 1536, 2048, 3000, 5000, 9000)
BITS = (1, 8, 9, 16, 20, 22, 23, 32, 33, 40, 48, 64, 65, 100, 128, 200, 256, 512)


@pytest.mark.parametrize(
    ("words", "bits", "read", "write"), [(256, 32, 26.0060, 33.4496), (1024, 16, 26.4863, 32.9180)]
)
def test_what_is_measured_is_taken_as_it_is(words: int, bits: int, read: float, write: float) -> None:
    """srams.csv, of one port."""
    found = macro_energy(MACROS, words, bits)
    assert found is not None
    assert (found.read_pj, found.write_pj, found.error) == (read, write, 0.0)


@pytest.mark.parametrize("bits", [22, 32])
def test_what_is_not_measured_is_estimated_between_what_is(bits: int) -> None:
    """The library has no one-port macros of 64 words but those of 64 bits, which take 39 pJ; 256 × 32 takes 26."""
    found = macro_energy(MACROS, 64, bits)
    assert found is not None
    assert 39.05 * bits / 64 * 0.7 < found.read_pj < 26.006
    assert 0.02 < found.error < 0.25
    assert {type(figure) for figure in dataclasses.astuple(found)} == {float}  # what JSON can hold, and no array's


def test_the_error_is_that_of_a_macro_that_the_fit_has_not_seen() -> None:
    """Each measured macro, taken out, is estimated within the error that the others' fit claims, or nearly so."""
    for left_out in (macro for macro in MACROS if macro.ports == 1):
        others = tuple(macro for macro in MACROS if macro is not left_out)
        found = macro_energy(others, left_out.words, left_out.bits)
        assert found is not None and left_out.read_pj is not None
        assert abs(found.read_pj / left_out.read_pj - 1) <= 1.5 * found.error, left_out.name


def test_of_few_macros_nothing_is_estimated() -> None:
    few = [macro for macro in MACROS if macro.ports == 1 and macro.words in (256, 512)][:5]
    assert macro_energy(tuple(few), 64, 32) is None


def test_a_fit_of_other_macros_finds_the_law_that_they_follow() -> None:
    """Invented macros that take 2 + bits · √words / 10 pJ."""
    sizes = product((64, 256, 1024), (8, 32, 64))
    macros = tuple(Macro(f"m{w}x{b}", 1, w, b, 1.0, 2 + b * w**0.5 / 10, 3 + b * w**0.5 / 10) for w, b in sizes)
    found = macro_energy(macros, 400, 16)
    assert found is not None
    assert (found.read_pj, found.write_pj) == (pytest.approx(2 + 32), pytest.approx(3 + 32))
    assert found.error < 1e-6


def test_a_storage_of_more_words_or_bits_takes_no_less_area_or_energy() -> None:
    for words, bits in product(WORDS, BITS):
        own = figures(storage(words, bits))
        for more in (
            storage(words + 1, bits),
            storage(words, bits + 1),
            storage(2 * words, bits),
            storage(words, 2 * bits),
        ):
            assert all(a <= b * (1 + 1e-9) for a, b in zip(own, figures(more), strict=True)), (words, bits, more)


def storage(words: int, bits: int) -> MemoryPrice:
    found = storage_price("s", (1, words, bits), PROCESS)
    assert found is not None
    return found


def figures(price: MemoryPrice) -> tuple[float, float, float]:
    assert price.read_pj is not None and price.write_pj is not None
    return price.area_um2, price.read_pj, price.write_pj


@pytest.mark.parametrize("isa", ["tiny8", "base16"])
@pytest.mark.parametrize("memory", ["act", "wgt", "acc"])
def test_a_memory_of_more_kib_takes_no_less_area_or_energy(isa: str, memory: str) -> None:
    _grows(isa, memory, "kib", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 64, 96, 128, 256], has_energy=True)


@pytest.mark.parametrize("memory", ["act", "acc"])
def test_a_memory_of_more_banks_takes_no_less_area(memory: str) -> None:
    """An access opens one of them, which is smaller: that may take less energy."""
    _grows("tiny8", memory, "banks", [1, 2, 4, 8, 16], has_energy=False)


def _grows(isa: str, memory: str, key: str, values: list[int], has_energy: bool) -> None:
    found = []
    for value in values:
        try:
            machine = load_machine(isa, [f"memories.{memory}.{key}={value}"])
        except IsaError:
            continue  # too few words for the banks
        price = memory_price(machine, machine.memories[memory], PROCESS)
        found.append((value, figures(price) if has_energy else figures(price)[:1]))
    assert len(found) >= len(values) // 2
    for (less, own), (more, others) in pairwise(found):
        assert all(a <= b * (1 + 1e-9) for a, b in zip(own, others, strict=True)), (less, more)


def test_no_smaller_memory_is_cheap_because_it_is_not_measured() -> None:
    """acc of 4 KiB on tiny8 is below 64 words a bank: it took nothing, and its sum was a third of that of 32 KiB."""
    prices = {}
    for kib in (4, 32):
        machine = load_machine("tiny8", [f"memories.acc.kib={kib}"])
        prices[kib] = memory_price(machine, machine.memories["acc"], PROCESS)
    assert prices[4].is_energy_estimated and not prices[32].is_energy_estimated
    assert prices[4].read_pj is not None and prices[32].read_pj is not None
    assert 0.2 * prices[32].read_pj < prices[4].read_pj <= prices[32].read_pj


def test_without_measured_macros_an_energy_is_unknown() -> None:
    silent = tuple(dataclasses.replace(macro, read_pj=None, write_pj=None) for macro in MACROS)
    assert storage_energy(silent, 64, 32, 2) is None
