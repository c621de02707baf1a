"""The meaning of tile programs: equal, byte for byte, to the binary that they become, and to a schedule of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import CompileError
from tilewright.compiler.tile.interpreter import interpret_tiles
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import dram_bytes, place_regions
from tilewright.simulator.interpreter import interpret

MACHINES = ("base16", "tiny8", "rect")


def random_inputs(tiles: TileProgram) -> bytes:
    return np.random.default_rng(99).integers(0, 256, tiles.input_bytes, np.uint8).tobytes()


def run_binary(tiles: TileProgram, inputs: bytes) -> bytes:
    """The outputs region after the oracle has run the emitted program."""
    program = emit(waits(allocate(tiles)))
    bases = place_regions(program.limits)
    dram = np.zeros(dram_bytes(program.limits), np.uint8)
    for region, content in (("weights", program.weights), ("inputs", inputs)):
        dram[bases[region] : bases[region] + len(content)] = np.frombuffer(content, np.uint8)
    final = interpret(program, dram, bases).dram
    return final[bases["outputs"] : bases["outputs"] + program.output_bytes].tobytes()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(2))
def test_equals_the_binary(machine: str, seed: int) -> None:
    tiles = random_tiles(load_machine(machine), seed)
    inputs = random_inputs(tiles)
    assert interpret_tiles(tiles, inputs) == run_binary(tiles, inputs)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(4))
def test_a_schedule_keeps_the_meaning(machine: str, seed: int) -> None:
    tiles = random_tiles(load_machine(machine), seed)
    inputs = random_inputs(tiles)
    assert interpret_tiles(schedule(tiles), inputs) == interpret_tiles(tiles, inputs)


def test_refuses_an_access_outside_its_buffer() -> None:
    builder = TileBuilder(load_machine("base16"), np.random.default_rng(0))
    to = builder.buffer("act", WORDS)
    builder.run("fill", {"trip.k": WORDS + 1, "y.k": 1}, y=to)
    with pytest.raises(CompileError) as refused:
        interpret_tiles(builder.program(), b"")
    assert str(refused.value) == "operation 0 (fill): y touches words 0 to 6 of act2, which has 6"


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize(("mnemonic", "product"), [("mma", "r,krc->c"), ("mma_transposed", "r,kcr->c")])
def test_multiplies_by_tiles_and_by_their_transposes(machine: str, mnemonic: str, product: str) -> None:
    """Two tiles with one vector, whose int32 sums leave as they are."""
    builder = TileBuilder(load_machine(machine), np.random.default_rng(1))
    size = builder.machine.array.rows
    a, w, c = builder.load_input(), builder.load("wgt", 2 * size), builder.buffer("acc", 1)
    start = builder.operations[-1].bases["d"].offset
    builder.run(mnemonic, {"trip.k": 2, "w.k": size, "a.k": 0}, a=a, w=w, c=c)
    builder.outputs.append(builder.fixed("out0", "outputs", 4 * size))
    builder.run("store_acc", {}, y=c, d="out0")
    tiles = builder.program()
    inputs = random_inputs(tiles)
    vector = np.frombuffer(inputs, np.int8, size).astype(np.int64)
    weights = np.frombuffer(tiles.weights, np.int8)[start : start + 2 * size * size].reshape(2, size, size)
    found = interpret_tiles(tiles, inputs)
    assert np.frombuffer(found, "<i4", size).tolist() == np.einsum(product, vector, weights).tolist()
    assert found == run_binary(tiles, inputs)
