"""A network in parts: what the machine does is compiled, what it cannot is on the host with its reason."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model
from tests.mixed_networks import alternating, sandwich
from tilewright.compiler import passes
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.importers import import_onnx
from tilewright.compiler.options import Options
from tilewright.compiler.partition import compile as compile_module
from tilewright.compiler.partition import faults, programs, source
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.search import decide
from tilewright.compiler.search.search import search_tiling
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.session import Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.binary.partitioned_elf import partitioned_to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import HostSegment, NpuSegment, Partitioned
from tilewright.isa.program.program import Program


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
def test_compiles_the_parts_around_what_the_machine_cannot_do(machine: str) -> None:
    compiled = compile_partitioned(sandwich(), load_machine(machine))
    assert isinstance(compiled, Partitioned)
    first, host, last = compiled.segments
    assert isinstance(first, NpuSegment) and first.program.instructions
    assert isinstance(host, HostSegment) and [node.op_type for node in host.nodes] == ["CumSum"]
    assert isinstance(last, NpuSegment) and last.program.instructions


def test_a_network_for_the_machine_alone_is_a_program() -> None:
    model = conv_model(np.random.default_rng(0), 8, 8)
    assert isinstance(compile_partitioned(model, load_machine("base16")), Program)


class Counted:
    """How often the steps of a compilation ran, and how many operators they took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        for module, name in (
            (source, "read_onnx"), (source, "finish_onnx"), (source, "build_graph"), (import_onnx, "import_onnx"),
            (faults, "simplify_graph"), (faults, "cover_graph"), (programs, "compile_covered"),
        ):  # fmt: skip
            self._count(module, name)

    def _count(self, module: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(module, name)

        def counted(first: Any, *arguments: Any) -> Any:
            self.calls[name] += 1
            self.operators[name] += len(getattr(first, "operators", ()))
            return original(first, *arguments)

        self._monkeypatch.setattr(module, name, counted)


def test_is_read_once_and_each_node_simplified_at_most_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """As part of the whole and as part of its own part; only a part that stays is tiled, and once."""
    model = alternating(6)
    counted = Counted(monkeypatch)
    compiled = compile_partitioned(model, load_machine("tiny8"), Options(effort=0))
    assert isinstance(compiled, Partitioned) and len(compiled.segments) == 13
    assert [counted.calls[name] for name in ("read_onnx", "finish_onnx", "build_graph", "import_onnx")] == [1, 1, 1, 0]
    assert counted.operators["simplify_graph"] <= 2 * len(model.graph.node)
    assert [counted.calls[name] for name in ("simplify_graph", "cover_graph", "compile_covered")] == [1 + 7, 7, 7]


def test_of_parts_that_look_alike_one_is_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first and the last look different from those between. The programs are those that searches of each give."""
    model, machine = alternating(6), load_machine("tiny8")
    searched: list[Selection] = []
    scheduled: list[TileProgram] = []

    def search(selection: Selection, *others: Any) -> TilingOptions:
        searched.append(selection)
        return search_tiling(selection, *others)

    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "first"))

    def schedule_one(tiles: TileProgram, *others: Any) -> TileProgram:
        scheduled.append(tiles)
        return schedule(tiles, *others)

    monkeypatch.setattr(decide, "search_tiling", search)
    monkeypatch.setattr(passes, "schedule", schedule_one)
    together = compile_partitioned(model, machine)
    assert isinstance(together, Partitioned)
    assert len({tiles.layers[0].name for tiles in scheduled}) <= 3, "the others take over what was made of these"
    assert len(searched) <= 3 < sum(isinstance(each, NpuSegment) for each in together.segments)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "second"))
    monkeypatch.setattr(Session, "known", lambda *given: None)
    alone = compile_partitioned(model, machine)
    assert isinstance(alone, Partitioned)
    assert partitioned_to_bytes(alone) == partitioned_to_bytes(together)


def test_what_was_made_of_parts_is_freed_without_a_search_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is kept with its traceback holds all that the frames of the compilation hold."""
    made: list[ref[programs.Programs]] = []

    class Noted(programs.Programs):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            made.append(ref(self))

    monkeypatch.setattr(compile_module, "Programs", Noted)
    gc.disable()
    try:
        compile_partitioned(alternating(2), load_machine("tiny8"), Options(effort=0))
        assert [each() for each in made] == [None]
    finally:
        gc.enable()


def test_for_another_machine_nothing_is_read_or_simplified(monkeypatch: pytest.MonkeyPatch) -> None:
    model, session = alternating(2), Session()
    compile_partitioned(model, load_machine("tiny8"), Options(effort=0), session=session)
    counted = Counted(monkeypatch)
    compile_partitioned(model, load_machine("base16"), Options(effort=0), session=session)
    assert set(counted.calls) == {"cover_graph", "compile_covered"}


@pytest.mark.parametrize(
    ("shape", "reader"),
    [*((shape, "") for shape in ([1, 3], [], [1, 2, 3, 4, 5], ["n"])), ([1, 3], "Hardmax"), ([1, 3], "QuantizeLinear")],
)
def test_an_input_that_no_output_depends_on_is_no_error(shape: list[int | str], reader: str) -> None:
    """It is among the network's inputs, and no program takes it."""
    model = conv_model(np.random.default_rng(0))
    model.graph.input.append(onnx.helper.make_tensor_value_info("unread", onnx.TensorProto.FLOAT, shape))
    if reader:
        scale = ["x.q.scale"] if reader == "QuantizeLinear" else []
        model.graph.node.append(onnx.helper.make_node(reader, ["unread", *scale], ["dead"]))
    compiled = compile_partitioned(model, load_machine("tiny8"), Options(effort=0), host=False)
    assert isinstance(compiled, Partitioned)
    assert [value.name for value in compiled.inputs] == ["x", "unread"]
    assert [segment.program.inputs[0].name for segment in compiled.segments if isinstance(segment, NpuSegment)] == ["x"]
    assert not compiled.host_nodes


def test_functions_of_the_file_are_nodes_of_the_network() -> None:
    """A network of which the machine does all is a program, also where the file calls functions of its own."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> f (float[1, 16] x) => (float[1, 16] y)'
        "<float s = {0.5}, int8 z = {0}>"
        "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) r = local.positive(d)"
        "  p = QuantizeLinear(r, s, z) y = DequantizeLinear(p, s, z) }"
        '<domain: "local", opset_import: ["" : 17]> positive (a) => (b) { b = Relu(a) }'
    )
    assert isinstance(compile_partitioned(model, load_machine("tiny8"), Options(effort=0)), Program)
