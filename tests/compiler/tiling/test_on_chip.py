"""Which tables are loaded once for several nests, and that the values stay those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, run_onnx
from tests.compiler.pipelines import simulated, steps_apart
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation
from tilewright.compiler.tiling.on_chip import without_second_loads
from tilewright.isa.files.loader import load_machine

VECTOR16 = load_machine("vector16")
ROOM_FOR_THREE = load_machine("vector16", ["memories.exp.depth=768"])
ENTRIES = 256


def buffers(tables: Mapping[str, int], data: Mapping[str, int]) -> dict[str, TileBuffer]:
    """Tables on chip by their words, constants by their place in the weights region, and words to compute on."""
    found = {name: TileBuffer(name, "exp", words) for name, words in tables.items()}
    found |= {name: TileBuffer(name, "weights", 512, offset=offset) for name, offset in data.items()}
    return found | {"sums": TileBuffer("sums", "acc", 1), "input": TileBuffer("input", "inputs", 512, offset=0)}


def loaded(table: str, data: str, byte: int = 0) -> TileOperation:
    bases = {"d": BufferAddress(data, byte), "y": BufferAddress(table, 0)}
    return TileOperation("load_exp", {"trip.k": ENTRIES}, bases, 0)


def looked_up(table: str) -> TileOperation:
    bases = {name: BufferAddress(buffer, 0) for name, buffer in (("a", "sums"), ("t", table), ("y", "sums"))}
    return TileOperation("reciprocal", {"shift": 0}, bases, 0)


def tables_of(operations: Sequence[TileOperation]) -> list[str]:
    """The tables that are loaded, in capitals, and those that are looked up in, in order."""
    found = [(operation.mnemonic, operation.bases) for operation in operations]
    return [bases["y"].buffer.upper() if name == "load_exp" else bases["t"].buffer for name, bases in found]


def test_heads_share_their_tables() -> None:
    made = buffers(dict.fromkeys(("e1", "g1", "e2", "g2"), ENTRIES), {"de": 0, "dg": 512, "de2": 0, "dg2": 512})
    operations = [
        loaded("e1", "de"), loaded("g1", "dg"), looked_up("e1"), looked_up("g1"),
        loaded("e2", "de2"), loaded("g2", "dg2"), looked_up("e2"), looked_up("g2"),
    ]  # fmt: skip

    left, kept = without_second_loads(operations, made, VECTOR16)

    assert tables_of(left) == ["E1", "G1", "e1", "g1", "e1", "g1"]
    assert set(made) - set(kept) == {"e2", "g2"}


def between(made: Mapping[str, TileBuffer], second: TileOperation) -> list[TileOperation]:
    """A table, two others while it is not wanted, and a table again."""
    others = [name for name in ("b", "c") if name in made]
    loads = [loaded(name, f"d{name}") for name in others]
    return [loaded("a1", "da"), looked_up("a1"), *loads, *map(looked_up, others), second, looked_up("a2")]


def test_a_table_stays_only_where_there_is_room_for_it() -> None:
    made = buffers(dict.fromkeys(("a1", "a2", "b", "c"), ENTRIES), {"da": 0, "db": 512, "dc": 1024})
    operations = between(made, loaded("a2", "da"))

    assert tables_of(without_second_loads(operations, made, VECTOR16)[0]) == [
        "A1",
        "a1",
        "B",
        "C",
        "b",
        "c",
        "A2",
        "a2",
    ]
    assert tables_of(without_second_loads(operations, made, ROOM_FOR_THREE)[0]) == [
        "A1",
        "a1",
        "B",
        "C",
        "b",
        "c",
        "a1",
    ]


def test_beside_tables_of_another_size_none_stays() -> None:
    """Places in between might not be large enough for either."""
    made = buffers({"a1": ENTRIES, "a2": ENTRIES, "b": 2 * ENTRIES}, {"da": 0, "db": 512})

    left, kept = without_second_loads(between(made, loaded("a2", "da")), made, ROOM_FOR_THREE)

    assert tables_of(left) == ["A1", "a1", "B", "b", "A2", "a2"]
    assert kept is made


@pytest.mark.parametrize("second", [loaded("a2", "db"), loaded("a2", "da", 16), loaded("a2", "input")])
def test_another_content_is_loaded(second: TileOperation) -> None:
    """From other constants, from another byte, and from what is not constant."""
    made = buffers(dict.fromkeys(("a1", "a2"), ENTRIES), {"da": 0, "db": 512})
    assert tables_of(without_second_loads(between(made, second), made, VECTOR16)[0]) == ["A1", "a1", "A2", "a2"]


def test_what_the_host_writes_is_never_taken_for_a_constant() -> None:
    made = buffers(dict.fromkeys(("a1", "a2"), ENTRIES), {})
    operations = [loaded("a1", "input"), looked_up("a1"), loaded("a2", "input"), looked_up("a2")]
    assert without_second_loads(operations, made, VECTOR16)[0] is operations


def softmaxes(scale: float) -> onnx.ModelProto:
    """A softmax of each of two inputs of 8 channels; the scale of the second input."""
    builder = ModelBuilder(np.random.default_rng(0))
    for name, of in (("x", 0.1), ("z", scale)):
        quantized = builder.quantize(builder.input(name, (1, 8, 3, 3)), of, 3, name=f"{name}.q")
        y = builder.node("Softmax", [quantized], name=f"softmax.{name}", axis=1)
        builder.output(builder.quantize(y, 1 / 256, -128, name=f"{name}.y"), f"result.{name}")
    return builder.build("softmaxes")


@pytest.mark.parametrize(("scale", "loads"), [(0.1, 2), (0.2, 3)])
def test_a_second_softmax_loads_what_differs(scale: float, loads: int) -> None:
    """Exponentials depend on the scale of what goes in, guesses of reciprocals do not."""
    program, model = compile_model(softmaxes(scale), VECTOR16, Options(effort=0)), softmaxes(scale)
    rng = np.random.default_rng(1)
    inputs = {name: rng.normal(size=(1, 8, 3, 3)).astype(np.float32) for name in ("x", "z")}

    assert sum(instruction.format.mnemonic == "load_exp" for instruction in program.instructions) == loads
    computed, expected = simulated(program, inputs), run_onnx(model, inputs)
    for tensor in program.outputs:
        assert steps_apart(computed[tensor.name], expected[tensor.name], tensor).max() <= 1
