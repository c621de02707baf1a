"""Constants as bytes: every value where the machine looks for it."""

from __future__ import annotations

import numpy as np

from tilewright.compiler.tiling.constants import pack_parameters, pack_tables, pack_tensor
from tilewright.compiler.tiling.layout import DramLayout
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.machine.memory import Memory, integer_element, structured_element


def test_packs_fields_from_bit_0_on() -> None:
    element = structured_element({"bias": IntegerType(32, True), "scale": IntegerType(16, False)})
    values = {"bias": np.array([-2, 7, 9]), "scale": np.array([3, 40000, 1])}
    content = pack_parameters(element, 2, 2, values)
    words = [int.from_bytes(content[8 * i : 8 * i + 8], "little") for i in range(4)]
    assert words == [2**32 - 2 + (3 << 32), 7 + (40000 << 32), 9 + (1 << 32), 0]


def test_packs_a_tensor_with_its_lanes_innermost() -> None:
    values = np.arange(2 * 5 * 2 * 3).reshape(2, 5, 2, 3)
    content = np.frombuffer(pack_tensor(values, IntegerType(8, True), DramLayout((2, 5, 2, 3), 4, 4)), np.int8).reshape(
        2, 2, 2, 3, 4
    )
    for n, c, y, x in np.ndindex(2, 5, 2, 3):
        assert content[n, c // 4, y, x, c % 4] == values[n, c, y, x]
    assert not content[:, 1, :, :, 1:].any()


def test_packs_tables_with_an_entry_of_each_lane_in_a_word() -> None:
    memory = Memory("lut", integer_element(IntegerType(8, True)), 2, 64, 1)
    tables = np.array([[0, 1, 2], [10, 11, 12], [20, 21, 22]])
    content = np.frombuffer(pack_tables(memory, tables, range(1, 2)), np.int8)
    assert content.reshape(3, 2).tolist() == [[20, 20], [21, 21], [22, 22]]  # channel 3 does not exist
    content = np.frombuffer(pack_tables(memory, tables[0], None), np.int8)
    assert content.reshape(3, 2).tolist() == [[0, 0], [1, 1], [2, 2]]
