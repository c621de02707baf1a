"""Emission: fields, regions and layers of the program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.tile_programs import TileBuilder
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.emit import emit
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import CompileError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.program.program import Layer, Program


def emitted(builder: TileBuilder) -> Program:
    return emit(waits(allocate(builder.program())))


def builder() -> TileBuilder:
    return TileBuilder(load_machine("base16"), np.random.default_rng(0))


def test_a_base_is_the_buffers_address_and_the_offset() -> None:
    build = builder()
    first = build.fill()
    build.run("fill", {"trip.k": 2, "y.k": 1}, y=(first, 3))
    build.store(first)
    program = emitted(build)
    assert program.instructions[1].base("y") == program.instructions[0].base("y") + 3


def test_dram_operands_name_their_region() -> None:
    build = builder()
    build.store(build.load_input())
    load, store = emitted(build).instructions
    assert REGIONS[load["d.region"]] == "inputs"
    assert REGIONS[store["d.region"]] == "outputs"


def test_a_layer_begins_after_the_last_work_of_those_before() -> None:
    # Layer 1's load runs ahead into layer 0; layer 2 has loads only; layer 3's store is the end.
    build = builder()
    x = build.load_input()
    y = build.add(x, x)
    build.layer = 1
    w = build.load("act", 6)
    build.layer = 0
    y = build.add(y, y)
    build.layer = 1
    y = build.add(y, w)
    build.layer = 2
    build.load("wgt", 16)
    build.layer = 3
    build.store(y)
    program = emitted(build)
    assert [layer.first_instruction for layer in program.layers] == [0, 4, 5, 5]
    assert program.provenance == (0, 0, 1, 0, 1, 2, 3)


def test_layers_keep_their_nodes_and_products() -> None:
    build = builder()
    build.store(build.load_input())
    tiles = build.program()
    (layer,) = tiles.layers
    tiles = replace(tiles, layers=(replace(layer, macs=42),))
    program = emit(waits(allocate(tiles)))
    assert program.layers == (Layer("layer0", 0, ("node0",), 42),)


def test_more_instructions_than_waits_can_count_are_refused() -> None:
    build = TileBuilder(load_machine("base16", ["wait_bits=4"]), np.random.default_rng(0))
    for _ in range(16):
        build.fill()
    with pytest.raises(CompileError) as refused:
        emitted(build)
    assert str(refused.value) == (
        "layer0: the program has more than 15 instructions for vec, which wait_bits = 4 cannot count; "
        "use a machine with wider wait counts"
    )


def test_a_value_that_its_field_cannot_hold_names_the_layer() -> None:
    build = builder()
    build.fill()
    tiles = build.program()
    wrong = tiles.operations[0]._replace(fields={**tiles.operations[0].fields, "value": 128})
    tiles = replace(tiles, operations=(wrong,))
    ordered = waits(allocate(tiles))
    with pytest.raises(CompileError) as refused:
        emit(ordered)
    message = "fill: value = 128 does not fit its 8 bits; expected -128 to 127"
    assert str(refused.value) == f"layer0: operation 0: {message}"
