"""What the analytic model expects of a tile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.compiler.machines import without
from tests.compiler.nests import network_for, select_and_tile
from tests.compiler.simplify.test_softmax import along
from tests.compiler.tiling.test_window_sums import CENTRE, PLAIN, asymmetric
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.select.bindings import TableBinding
from tilewright.compiler.select.cover import Cover
from tilewright.compiler.select.select import select
from tilewright.compiler.select.transfer import find_transfers
from tilewright.compiler.tiling import cost
from tilewright.compiler.tiling.choice import Candidates
from tilewright.compiler.tiling.cost import EngineShare, Shares, TileShare, pipelined
from tilewright.compiler.tiling.cost_terms import ALONE, operand_load, tile_counts
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.shape import NestShape, box_read, extents
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.isa.timing import dma_round_trip


def test_what_weights_lack_takes_as_long_as_the_product_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an instruction that adds sums, the array multiplies by the number that all weights have in addition."""
    machine = without(load_machine("base16"), "add_sums")
    found: dict[int, float] = {}
    product_cycles = cost.product_cycles
    for zero in (CENTRE, 100):

        def noted(*arguments: Any, zero: int = zero) -> Any:
            cycles = product_cycles(*arguments)
            found.setdefault(zero, float(np.min(cycles)))
            return cycles

        monkeypatch.setattr(cost, "product_cycles", noted)
        compile_model(asymmetric(PLAIN, zero), machine, Options(effort=0))
    assert found[100] == 2 * found[CENTRE] > 0


def test_partial_sums_of_a_vector_times_a_matrix_are_even() -> None:
    """18 blocks in sums of 5, 5, 5 and 3 would let the bus wait for the array, for each tile of results."""
    of = load_machine("base16")
    network = network_for(of, 0)
    output = network.conv(network.input(1, 18 * of.lanes, 1, 1), 32_000, (1, 1))
    program = select_and_tile(network.program(output), of, TilingOptions())
    sizes = Counter(buffer.size for buffer in program.buffers.values() if buffer.place == "wgt")
    assert len(sizes) == 2  # of all tiles, and of the last one


def test_rows_that_are_cut_take_the_time_of_their_bursts() -> None:
    """A sum of two tensors, loaded in tiles of single columns: a burst for each word, of which few are under way."""
    machine = load_machine("base16")
    network = network_for(machine, 0)
    output = network.add(network.input(1, 64, 28, 28), network.input(1, 64, 28, 28))
    shape, found = alone(network.program(output), machine)
    columns = found.cuts.sizes[shape.cover.space.column]
    narrow, whole = (found.cycles[found.is_double & (columns == width)].min() for width in (1, 28))
    bursts = 2 * 4 * 28 * 28
    under_way = find_transfers(machine).load("act").engine.dma.bursts
    least = bursts * dma_round_trip(machine) / under_way
    # Instructions come in the cycles in which no beat can.
    assert 1.01 * least > narrow > least > 3 * whole


def test_words_that_follow_each_other_in_dram_are_one_run() -> None:
    """Of two images of 4 blocks, 6 rows and 8 columns: rows, then planes, then images."""
    machine = load_machine("base16")
    network = network_for(machine, 0)
    shape, _ = alone(network.program(network.rescale(network.input(2, 4 * machine.lanes, 6, 8))), machine)
    space = shape.cover.space
    sizes = {loop: np.array([extent] * 3) for loop, extent in extents(shape).items()}
    sizes |= {space.column: np.array([7, 8, 8]), space.row: np.array([6, 5, 6])}
    (step,) = shape.cover.steps
    box = box_read(shape, step, *shape.off_chip, sizes)
    assert list(box.runs) == [2 * 4 * 6, 2 * 4, 2]
    assert list(box.words) == [2 * 4 * 6 * 7, 2 * 4 * 5 * 8, 2 * 4 * 6 * 8]


def test_rows_and_columns_beyond_a_tensor_are_not_loaded() -> None:
    """A window of 3 × 3 with padding on two sides only, for a result of 14 × 14 in one tile, or in rows of it."""
    machine = load_machine("base16")
    network = network_for(machine, 0)
    shape, _ = alone(network.program(network.max_pool(network.input(1, machine.lanes, 28, 28), 3, 2, pad=1)), machine)
    space = shape.cover.space
    sizes = {loop: np.array([extent] * 2) for loop, extent in extents(shape).items()} | {space.row: np.array([14, 1])}
    (step,), count = shape.cover.steps, tile_counts(shape, sizes)
    (operand,) = step.format.sources
    loaded = operand_load(shape, machine, sizes, np.array([False] * 2), count, 0, operand, ALONE)
    assert list(np.asarray(loaded.cycles)) == pytest.approx([28 * 28, 14 * 3 * 28 - 28])


def test_tables_come_before_the_first_tile() -> None:
    """They are no reason for more tiles, each of which waits ten times for what the statement before it computes."""
    machine, model = load_machine("vector16"), along((1, 64, 64), {"axis": -1})

    def cycles(tiling: TilingOptions) -> int:
        program = compile_partitioned(model, machine, Options(effort=0, tiling=tiling))
        assert isinstance(program, Program)
        return exact_cycles(program)

    kept: dict[str, Any] = {}
    compile_partitioned(model, machine, Options(effort=0), keep=kept.__setitem__)
    (nest,), planner = kept["select"].program.nests, Planner(kept["select"], TilingOptions())
    found = planner.candidates(0, planner.plan().residency)
    assert len(find_tables(kept["select"].covers[0])) > 1
    few = [found.choice(int(index)) for index in np.flatnonzero(found.is_possible & (found.tiles <= 5))]
    sizes = [TileSizes(choice.sizes, choice.points_outer) for choice in few]
    exact = [cycles(TilingOptions(tiles={nest.name: each})) for each in sizes]
    assert cycles(TilingOptions()) < 1.1 * min(exact) < max(exact)


def find_tables(cover: Cover) -> list[TableBinding]:
    return [bound for step in cover.steps for bound in step.inputs.values() if isinstance(bound, TableBinding)]


def alone(program: NestProgram, machine: Machine) -> tuple[NestShape, Candidates]:
    """The only nest of a program, its tensors in DRAM, and what the model expects of its tilings."""
    planner = Planner(select(program, machine), TilingOptions(residency="none"), ALONE)
    plan = planner.plan()
    return plan.shapes[0], planner.candidates(0, plan.residency)


def simulated(sizes: list[float], rates: list[float]) -> float:
    """Tile after tile, stage after stage: a tile begins when the stage is free and the stage before is done with it."""
    free = [0.0] * len(rates)
    for size in sizes:
        done = 0.0
        for stage, rate in enumerate(rates):
            done = max(done, free[stage]) + size * rate
            free[stage] = done
    return free[-1]


def expected(sizes: list[float], rates: list[float]) -> float:
    """The same from the model: the first tile, the last whole one, the one before the last, and the last."""
    total, most = sum(sizes), max(sizes)
    shares = [np.array([size / total]) for size in sizes]
    whole = max(place for place, size in enumerate(sizes) if size == most)
    turns = [whole, *([len(sizes) - 2] if len(sizes) > 1 else [])]
    places = tuple(TileShare(shares[turn], np.array([sum(sizes[turn + 1 :]) / total])) for turn in turns)
    stages = [EngineShare(np.array([rate * total])) for rate in rates]
    return float(pipelined(stages, Shares(shares[0], places, shares[-1]))[0])


@pytest.mark.parametrize("seed", range(8))
def test_is_exact_for_tiles_of_one_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = list(rng.integers(0, 20, 4).astype(float))
    sizes = [8.0] * int(rng.integers(1, 9))
    assert expected(sizes, rates) == pytest.approx(simulated(sizes, rates))


def test_is_near_where_the_last_tiles_are_smaller() -> None:
    """Rows of two tiles, the second of them smaller; the last row is smaller as a whole."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(300):
        rates = list(rng.integers(1, 10, 4).astype(float))
        across, rows = [8.0, float(rng.integers(1, 9))], [1.0] * int(rng.integers(1, 6)) + [float(rng.random())]
        sizes = [width * height for height in rows for width in across]
        ratios.append(expected(sizes, rates) / simulated(sizes, rates))
    assert max(ratios) <= 1.000001  # it is the length of some paths
    assert min(ratios) >= 0.9
    assert np.mean(np.array(ratios) >= 0.99) >= 0.9


def test_counts_the_stages_before_and_after_the_slowest() -> None:
    """Ten tiles: 2 cycles, 5 and 3 for each. The slowest stage begins after 2 and works 50; then 3 are left."""
    assert expected([1.0] * 10, [2.0, 5.0, 3.0]) == pytest.approx(2 + 50 + 3)


def test_a_stage_may_begin_with_part_of_a_tile() -> None:
    """Two tiles of four parts: the first of the 8 parts takes 1 cycle, then the array works 80, then 5 are left."""
    half = np.array([0.5])
    stages = [
        EngineShare(np.array([8.0]), np.array([4])),
        EngineShare(np.array([80.0]), np.array([4])),
        EngineShare(np.array([10.0])),
    ]
    assert float(pipelined(stages, Shares(half, (), half))[0]) == pytest.approx(1 + 80 + 5)
    first = EngineShare(np.array([8.0]), np.array([4]), np.array([30.0]))
    assert float(pipelined([first, *stages[1:]], Shares(half, (), half))[0]) == pytest.approx(30 + 80 + 5)
