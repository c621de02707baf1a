"""Arrays that do the same in memories of their own: which there are, and which instructions take each other's place."""

from __future__ import annotations

import pytest

from tests.twins import PRODUCT, SMALL, arrays
from tilewright.isa.files.loader import load_machine, load_machine_text

COPY = "copies: {mma2: {of: mma, memories: {wgt: wgt2, acc: acc2}}}\n"


def test_a_twin_has_other_memories_and_the_instructions_that_name_them() -> None:
    (twin,) = load_machine_text("extends: base16\n" + COPY, "m.yaml").twins

    assert twin.memories == {"wgt": "wgt2", "acc": "acc2"}
    assert twin.mnemonics == {
        "load_wgt": "load_wgt_mma2",
        "load_acc": "load_acc_mma2",
        "store_acc": "store_acc_mma2",
        "mma": "mma_mma2",
        "requantize": "requantize_mma2",
        "sum": "sum_mma2",
        "add_bias": "add_bias_mma2",
        "mma_transposed": "mma_transposed_mma2",
        "add_sums": "add_sums_mma2",
    }


def test_each_further_array_is_a_twin_of_the_first() -> None:
    assert [twin.memories for twin in arrays(4).twins] == [
        {"wgt": f"wgt{number}", "acc": f"acc{number}"} for number in (2, 3, 4)
    ]


def test_only_the_instructions_of_the_first_array_are_selected() -> None:
    names = [format.mnemonic for format in arrays(4).distinct_formats]

    assert names == list(load_machine_text(SMALL, "m.yaml").formats)


def test_instructions_are_twins_by_what_they_do_whatever_they_are_called() -> None:
    (twin,) = load_machine_text(PRODUCT.format(cols=16, kib=128, bits=6), "m.yaml").twins

    assert twin.mnemonics == {"mma": "product"}  # the machine has no other instruction with the new memories


@pytest.mark.parametrize(("cols", "kib", "bits"), [(32, 128, 6), (16, 64, 6), (16, 128, 5)])
def test_arrays_memories_and_instructions_of_other_sizes_are_no_twins(cols: int, kib: int, bits: int) -> None:
    assert not load_machine_text(PRODUCT.format(cols=cols, kib=kib, bits=bits), "m.yaml").twins


def test_one_array_has_no_twin() -> None:
    assert not load_machine("base16").twins
