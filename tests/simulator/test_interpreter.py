"""The oracle itself, against tables whose numbers are explained and against plain matrix products."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.blocks import with_blocks
from tests.generators import LIMITS, one_instruction_program, program_of
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.encoding import Instruction, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.faults import Fault, FaultCode, MachineFault
from tilewright.isa.program.program import dram_bytes, place_regions
from tilewright.isa.program.state import MachineState, initial_state
from tilewright.simulator.errors import SimulatorError
from tilewright.simulator.interpreter import interpret, interpret_instruction
from tilewright.simulator.regions import regions_of

TINY = load_machine("tiny8")
BASES = place_regions(LIMITS)


def instruction(mnemonic: str, fields: Mapping[str, int], machine: Machine = TINY) -> Instruction:
    return make_instruction(machine.format(mnemonic), fields)


def empty_state(machine: Machine = TINY) -> MachineState:
    return initial_state(machine, np.zeros(dram_bytes(LIMITS), np.uint8))


def run(state: MachineState, of: Instruction, machine: Machine = TINY) -> None:
    program, bases = one_instruction_program(machine, of)
    interpret_instruction(machine, of, state, regions_of(program, bases))


def par_word(lanes: list[tuple[int, int, int]]) -> NDArray[np.uint8]:
    """(bias, scale, shift) of each lane, packed from bit 0 into 64 bits."""
    packed = [(bias & 0xFFFFFFFF) | scale << 32 | shift << 48 for bias, scale, shift in lanes]
    return np.array(packed, "<u8").view(np.uint8)


def test_requantizes_a_hand_table() -> None:
    # (a + bias) · scale / 2^shift, ties to even, + zero = 1, clamped to -3 … 50
    table = [
        (5, (0, 1, 1), 3),  # 2.5 → 2
        (7, (0, 1, 1), 5),  # 3.5 → 4
        (-5, (0, 1, 1), -1),  # -2.5 → -2
        (10, (-4, 3, 2), 5),  # 18 / 4 = 4.5 → 4
        (1000, (0, 1, 0), 50),  # above high
        (-1000, (0, 1, 0), -3),  # below low
        (2**31 - 1, (2**31 - 1, 65535, 63), 1),  # 2^32 · 2^16 / 2^63 rounds to 0
        (-(2**31), (0, 32768, 46), 0),  # -2^46 / 2^46 = -1
    ]
    state = empty_state()
    state.memories["acc"][3] = np.array([a for a, _, _ in table], "<i4").view(np.uint8)
    state.memories["par"][2] = par_word([parameters for _, parameters, _ in table])
    run(state, instruction("requantize", {"a.base": 3, "p.base": 2, "y.base": 7, "zero": 1, "low": -3, "high": 50}))
    assert state.memories["act"][7].view(np.int8).tolist() == [y for _, _, y in table]


def test_writes_the_largest_of_each_window() -> None:
    # Words 0 … 3, every lane holding 4, -2, 9, -7; windows of two with a step of one: (4, -2), (-2, 9), (9, -7).
    state = empty_state()
    for word, value in enumerate([4, -2, 9, -7]):
        state.memories["act"][word].view(np.int8)[:] = value
    run(state, instruction("max_pool", {"trip.x": 3, "trip.s": 2, "a.x": 1, "a.s": 1, "y.base": 10, "y.x": 1}))
    assert state.memories["act"][10:13].view(np.int8)[:, 0].tolist() == [4, 9, 9]


def test_multiplies_subtracts_and_compares_a_hand_table() -> None:
    a, b = [10, -10, 127, -128, 0, 3, 7, -1], [4, 4, 127, -128, 9, -3, 7, -128]
    state = empty_state()
    state.memories["act"][0].view(np.int8)[:] = a
    state.memories["act"][1].view(np.int8)[:] = b
    scales = {"a_zero": 2, "b_zero": -1, "shift": 2, "zero": 5, "low": -128, "high": 100}
    two = {"a.base": 0, "b.base": 1}
    run(state, instruction("mul", {**two, **scales, "y.base": 2, "scale": 3}))
    run(state, instruction("add", {**two, **scales, "y.base": 3, "a_scale": 3, "b_scale": -65536}))
    run(state, instruction("maximum", {**two, "y.base": 4}))
    run(state, instruction("minimum", {**two, "y.base": 5}))
    found = state.memories["act"][2:6].view(np.int8).tolist()
    # (a - 2)(b + 1) · 3 / 4 + 5: 30 + 5, -45 + 5, above high twice, -15 + 5, -1.5 → -2 + 5, 30 + 5, above high
    assert found[0] == [35, -40, 100, 100, -10, 3, 35, 100]
    # (3(a - 2) - 65536(b + 1)) / 4 + 5: far below low but for b = -128 or -3, where it is far above high
    assert found[1] == [-128, -128, -128, 100, -128, 100, -128, 100]
    assert found[2] == [10, 4, 127, -128, 9, 3, 7, -1]
    assert found[3] == [4, -10, 127, -128, 0, -3, 7, -128]


def test_looks_up_in_its_lanes_part_of_the_table() -> None:
    """Word w of the table holds w + 10 · lane, modulo 256; the table begins at word 5 and is for -128 … 127."""
    state = empty_state()
    words, lanes = np.arange(256)[:, None], np.arange(8)
    state.memories["lut"][5 : 5 + 256] = (words + 10 * lanes).astype(np.uint8)
    state.memories["act"][0].view(np.int8)[:] = [-128, -128, 0, 0, 1, -1, 127, 127]
    run(state, instruction("lookup", {"t.base": 5, "y.base": 1}))
    assert state.memories["act"][1].tolist() == [0, 10, 148, 158, 169, 177, 255 + 60 - 256, 255 + 70 - 256]


def test_sums_a_window_into_wider_words() -> None:
    state = empty_state()
    for word in range(300):
        state.memories["act"][word].view(np.int8)[:] = -128
    run(state, instruction("sum", {"trip.r": 3, "trip.s": 100, "a.r": 100, "a.s": 1, "y.base": 2}))
    assert state.memories["acc"][2].view("<i4").tolist() == [-128 * 300] * 8


def test_reduces_across_lanes() -> None:
    machine = load_machine("vector16", ["lanes=8"])
    state = empty_state(machine)
    values = np.array([[1, -2, 30, 4, 5, 6, 7, 8], [0, 0, 0, 0, 0, 0, 0, -60]], np.int8)
    state.memories["act"][0:2] = values.view(np.uint8)
    state.memories["par"][0] = par_word([(-128 if lane == 2 else 127, 0, 0) for lane in range(8)])
    run(state, instruction("sum_lanes", {"trip.s": 2, "a.s": 1, "y.base": 1}, machine), machine)
    run(state, instruction("max_lanes", {"trip.s": 2, "a.s": 1, "y.base": 3}, machine), machine)
    assert state.memories["acc"][1].view("<i4").tolist() == [-1] * 8
    assert state.memories["act"][3].view(np.int8).tolist() == [8] * 8


def test_takes_three_words_of_a_row_and_their_weights_in_an_iteration() -> None:
    """Pixel x of row r is 10 · r + x in all lanes, the weight of tap (r, s) is 3 · r + s + 1: a 3×3 window of 1 to 9.

    At pixel 1: 1·1 + 2·2 + 3·3 = 14, then 11·4 + 12·5 + 13·6 = 182 and 21·7 + 22·8 + 23·9 = 530: 726 in all. To it
    comes the lane's bias, 10 · lane, and an eighth of that is the result.
    """
    machine = with_blocks()
    state = empty_state(machine)
    for row in range(3):
        for place in range(4):
            state.memories["act"][4 * row + place] = 10 * row + place
        for tap in range(3):
            state.memories["wgt"][3 * row + tap] = 3 * row + tap + 1
    state.memories["par"][0] = par_word([(10 * lane, 1, 3) for lane in range(8)])
    fields = {"trip.x": 2, "trip.r": 3, "a.x": 1, "a.r": 4, "w.r": 3, "y.base": 100, "y.x": 1, "low": -128, "high": 127}
    run(state, instruction("depthwise", fields, machine), machine)
    expected = [round((726 + 10 * lane) / 8) for lane in range(8)]
    assert state.memories["act"][101].view(np.int8).tolist() == expected


def test_last_iteration_wins_where_destinations_overlap() -> None:
    state = empty_state()
    for word in range(3):
        state.memories["act"][word].view(np.int8)[:] = word + 1
    run(state, instruction("copy", {"trip.k": 3, "a.k": 1, "y.base": 20, "y.k": 0}))
    assert state.memories["act"][20].view(np.int8).tolist() == [3] * 8


def test_loads_words_that_start_at_any_byte() -> None:
    # 8-byte words at bytes 5, 8, 11 of the inputs: a window that moves by three channels.
    state = empty_state()
    start = BASES["inputs"]
    state.dram[start : start + 32] = np.arange(32)
    fields = {"trip.k": 3, "d.region": REGIONS.index("inputs"), "d.base": 5, "d.k": 3, "y.base": 1, "y.k": 2}
    run(state, instruction("load_act", fields))
    assert state.memories["act"][1:6:2].tolist() == [list(range(at, at + 8)) for at in (5, 8, 11)]
    assert not state.memories["act"][2].any()


def test_stores_backwards() -> None:
    state = empty_state()
    state.memories["act"][:2] = [[1] * 8, [2] * 8]
    fields = {"trip.k": 2, "y.k": 1, "d.region": REGIONS.index("outputs"), "d.base": 8, "d.k": -8}
    run(state, instruction("store_act", fields))
    start = BASES["outputs"]
    assert state.dram[start : start + 17].tolist() == [2] * 8 + [1] * 8 + [0]


@pytest.mark.parametrize(
    ("name", "mnemonic", "product"),
    [
        *((name, "mma", "kvr,tkrc->tvc") for name in ("base16", "tiny8", "rect")),
        *((name, "mma_transposed", "kvr,tkcr->tvc") for name in ("base16", "tiny8")),
    ],
)
@pytest.mark.parametrize("accumulate", [0, 1])
def test_mma_is_the_matrix_product(name: str, mnemonic: str, product: str, accumulate: int) -> None:
    machine = load_machine(name)
    rng = np.random.default_rng(5)
    vectors, tiles, reduced = 5, 2, 3
    rows, cols = machine.array.rows, machine.array.cols
    a = rng.integers(-128, 128, (reduced, vectors, rows), np.int8)
    w = rng.integers(-128, 128, (tiles, reduced, rows, cols), np.int8)
    old = rng.integers(-(2**31), 2**31, (tiles, vectors, cols), np.int32)
    state = empty_state(machine)
    act, wgt, acc = (state.memories[memory] for memory in ("act", "wgt", "acc"))
    act.reshape(-1)[: a.size] = a.reshape(-1).view(np.uint8)
    wgt.reshape(-1)[: w.size] = w.reshape(-1).view(np.uint8)
    acc.reshape(-1)[: old.nbytes] = old.reshape(-1).view(np.uint8)
    a_words, c_words = rows // machine.lanes, cols // machine.lanes
    fields = {
        **{"trip.n": tiles, "trip.k": reduced, "trip.x": vectors, "accumulate": accumulate},
        **{"a.k": vectors * a_words, "a.x": a_words},
        **{"w.n": reduced * rows, "w.k": rows},
        **{"c.n": vectors * c_words, "c.x": c_words},
    }
    run(state, instruction(mnemonic, fields, machine), machine)
    exact = np.einsum(product, a.astype(np.int64), w.astype(np.int64)) + accumulate * old.astype(np.int64)
    found = acc.reshape(-1)[: old.nbytes].view(np.int32).reshape(old.shape)
    assert np.array_equal(found, (exact + 2**31) % 2**32 - 2**31)


@pytest.mark.parametrize("mnemonic", ["multiply", "multiply_add"])
def test_a_vector_engine_gives_the_matrix_product(mnemonic: str) -> None:
    """What is added lies in other words than the sums, behind them."""
    machine = load_machine("vector-only")
    rng = np.random.default_rng(5)
    vectors, tiles, reduced, lanes = 5, 2, 3, machine.lanes
    a = rng.integers(-128, 128, (reduced, vectors, lanes), np.int8)
    w = rng.integers(-128, 128, (tiles, reduced, lanes, lanes), np.int8)
    old = rng.integers(-(2**31), 2**31, (tiles, vectors, lanes), np.int32)
    state = empty_state(machine)
    act, wgt, acc = (state.memories[memory] for memory in ("act", "wgt", "acc"))
    act.reshape(-1)[: a.size] = a.reshape(-1).view(np.uint8)
    wgt.reshape(-1)[: w.size] = w.reshape(-1).view(np.uint8)
    acc.reshape(-1)[old.nbytes : 2 * old.nbytes] = old.reshape(-1).view(np.uint8)
    fields = {
        **{"trip.n": tiles, "trip.k": reduced, "trip.x": vectors, "a.k": vectors, "a.x": 1},
        **{"w.n": reduced * lanes, "w.k": lanes, "c.n": vectors, "c.x": 1},
    }
    adds = mnemonic == "multiply_add"
    if adds:
        fields |= {"b.base": tiles * vectors, "b.n": vectors, "b.x": 1}
    run(state, instruction(mnemonic, fields, machine), machine)
    exact = np.einsum("kvr,tkrc->tvc", a.astype(np.int64), w.astype(np.int64)) + adds * old.astype(np.int64)
    found = acc.reshape(-1)[: old.nbytes].view(np.int32).reshape(old.shape)
    assert np.array_equal(found, (exact + 2**31) % 2**32 - 2**31)


NARROW_SUMS = """
extends: tiny8
memories: {acc: {element: int20}}
instructions:
  mma: {do: "c = wrap(sum(dot(a, w)), int20)"}
  mma_transposed: null
  sum: null
  add_bias: null
  add_sums: null
"""


def test_stores_a_narrow_element_sign_extended_and_reads_its_low_bits() -> None:
    machine = load_machine_text(NARROW_SUMS, "narrow")
    state = empty_state(machine)
    state.memories["act"][0].view(np.int8)[:] = -1
    state.memories["wgt"][:8].view(np.int8)[:] = 1
    run(state, instruction("mma", {"c.base": 0}, machine), machine)
    assert state.memories["acc"][0].view("<i4").tolist() == [-8] * 8  # -1 · 1, eight times; 20 bits in 32
    state.memories["acc"][0].view("<u4")[:] = 0xABC00000 | (2**20 - 5)  # as int20: -5
    state.memories["par"][0] = par_word([(0, 1, 0)] * 8)
    run(state, instruction("requantize", {"low": -128, "high": 127}, machine), machine)
    assert state.memories["act"][0].view(np.int8).tolist() == [-5] * 8


# -- faults ------------------------------------------------------------------------------------------------------------


def fault_of(*instructions: Instruction, machine: Machine = TINY) -> Fault:
    program = program_of(machine, instructions)
    with pytest.raises(MachineFault) as raised:
        interpret(program, np.zeros(dram_bytes(LIMITS), np.uint8), BASES)
    return raised.value.fault


def test_faults_at_the_first_word_beyond_a_memory() -> None:
    depth = TINY.memories["act"].depth
    beyond = instruction("copy", {"trip.k": 9, "a.base": depth - 4, "a.k": 2, "y.k": 1})
    assert fault_of(beyond) == Fault(FaultCode.ADDRESS, 0, depth)  # depth - 4, - 2, then depth


def test_faults_below_a_memory() -> None:
    below = instruction("fill", {"trip.k": 9, "y.base": 4, "y.k": -3})
    assert fault_of(instruction("fill", {}), below) == Fault(FaultCode.ADDRESS, 1, -2)  # 4, 1, -2


def test_faults_at_a_block_across_two_banks() -> None:
    machine = load_machine("rect")
    boundary = machine.memories["acc"].bank_depth
    across = instruction("mma", {"c.base": boundary - 1}, machine)
    assert fault_of(across, machine=machine) == Fault(FaultCode.ADDRESS, 0, boundary - 1)


def test_faults_at_the_weight_row_outside() -> None:
    depth = TINY.memories["wgt"].depth
    assert fault_of(instruction("mma", {"w.base": depth - 3})) == Fault(FaultCode.ADDRESS, 0, depth)


def test_faults_at_the_limit_that_a_burst_crosses() -> None:
    limit = LIMITS["workspace"]
    crossing = instruction("load_act", {"d.region": REGIONS.index("workspace"), "d.base": limit - 3})
    assert fault_of(crossing) == Fault(FaultCode.REGION, 0, BASES["workspace"] + limit)


def test_faults_at_the_first_burst_wholly_outside() -> None:
    # 8-byte words every 4096 bytes from 809 on; the region has 9001 bytes, so the third word is at 9001.
    away = instruction("load_act", {"trip.k": 3, "d.region": REGIONS.index("workspace"), "d.base": 809, "d.k": 4096})
    assert fault_of(away) == Fault(FaultCode.REGION, 0, BASES["workspace"] + 809 + 2 * 4096)


def test_faults_at_a_region_that_does_not_exist() -> None:
    nowhere = instruction("load_act", {"d.region": len(REGIONS), "d.base": 48})
    assert fault_of(nowhere) == Fault(FaultCode.REGION, 0, 48)


def test_faults_at_a_wait_for_a_later_instruction() -> None:
    first = instruction("fill", {})
    assert fault_of(first, first.replace({"wait.vec": 1, "wait.store": 2})) == Fault(FaultCode.WAIT, 1, 2)


def test_refuses_a_dram_image_that_is_too_small() -> None:
    program = program_of(TINY, ())
    with pytest.raises(SimulatorError) as raised:
        interpret(program, np.zeros(100, np.uint8), BASES)
    end = BASES["outputs"] + LIMITS["outputs"]
    assert str(raised.value) == (
        f"the DRAM image has 100 bytes; the program's regions reach to byte {end}: give at least that many"
    )
