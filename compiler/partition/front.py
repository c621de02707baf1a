"""What compiling a network for one machine after the other needs only once: it does not depend on the machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.partition.faults import Answer, simplify_part
from tilewright.compiler.partition.parts import Part
from tilewright.compiler.partition.source import Source, read_source
from tilewright.compiler.pipeline import Model

Found = TypeVar("Found")


class Front:
    """Networks as they were read, and their parts simplified: each found once, an error of it too.

    It is not sent to other processes: a copy there is empty.
    """

    def __init__(self) -> None:
        self._sources: dict[str, Source | CompileError] = {}
        self._simplified: dict[tuple[Source, Part], Answer[Graph] | CompileError] = {}

    def __reduce__(self) -> tuple[type[Front], tuple[()]]:
        return Front, ()

    def source(self, model: Model, shapes: Shapes, batch: int | None = None) -> Source:
        """As `read_source`. Raises CompileError as that does."""
        content = model.SerializeToString(deterministic=True) if isinstance(model, onnx.ModelProto) else model
        key = _key(content, shapes, batch)
        if key not in self._sources:
            self._sources[key] = _or_error(lambda: read_source(content, shapes, batch))
        return _raised(self._sources[key])

    def simplified(self, source: Source, part: Part) -> Answer[Graph]:
        """As `simplify_part`. Raises DamagedModel as that does."""
        if (source, part) not in self._simplified:
            self._simplified[source, part] = _or_error(lambda: simplify_part(source, part))
        return _raised(self._simplified[source, part])


def _or_error(find: Callable[[], Found]) -> Found | CompileError:
    try:
        return find()
    except CompileError as error:
        return error


def _raised(found: Found | CompileError) -> Found:
    if isinstance(found, CompileError):
        raise found.with_traceback(None)
    return found


def _key(model: str | Path | bytes, shapes: Shapes, batch: int | None) -> str:
    """A hash of a model's bytes, its open sizes and its images; a path stands for itself."""
    content = model if isinstance(model, bytes) else os.fsencode(model)
    return hashlib.sha256(f"{type(model).__name__} {sorted(shapes.items())} {batch} ".encode() + content).hexdigest()
