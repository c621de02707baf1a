"""What compiling a network for one machine after the other needs only once: it does not depend on the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.options import Options
from tilewright.compiler.partition.source import Source, read_source
from tilewright.compiler.pipeline import Model, compile_graph, simplified_graph
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program

Found = TypeVar("Found")


class Front:
    """The simplified graphs of a network and of its parts, and its nodes: each found once, an error of it too.

    It is not sent to other processes: a copy there is empty.
    """

    def __init__(self) -> None:
        self._graphs: dict[str, Graph | CompileError] = {}
        self._sources: dict[str, Source | CompileError] = {}

    def __reduce__(self) -> tuple[type[Front], tuple[()]]:
        return Front, ()

    def compile(self, model: Model, machine: Machine, options: Options) -> Program:
        """As `compile_model`. Raises CompileError and IsaError as that does."""
        graph = _known(self._graphs, _key(model, options.shapes), lambda: simplified_graph(model, options))
        return compile_graph(graph, machine, options)

    def source(self, model: str | Path | bytes, shapes: Shapes) -> Source:
        """As `read_source`. Raises CompileError as that does."""
        return _known(self._sources, _key(model, shapes), lambda: read_source(model, shapes))


def _known(known: dict[str, Found | CompileError], key: str, find: Callable[[], Found]) -> Found:
    if key not in known:
        try:
            known[key] = find()
        except CompileError as error:
            known[key] = error
    found = known[key]
    if isinstance(found, CompileError):
        raise found.with_traceback(None)
    return found


def _key(model: Model, shapes: Shapes) -> str:
    """A hash of a model's bytes and its open sizes; a path stands for itself."""
    match model:
        case onnx.ModelProto():
            content = model.SerializeToString(deterministic=True)
        case bytes():
            content = model
        case _:
            content = str(model).encode()
    return hashlib.sha256(f"{type(model).__name__} {sorted(shapes.items())} ".encode() + content).hexdigest()
