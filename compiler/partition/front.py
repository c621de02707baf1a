"""What compiling a network for one machine after the other needs only once: it does not depend on the machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import onnx

from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.partition.faults import Answer, simplify_part
from tilewright.compiler.partition.parts import Part
from tilewright.compiler.partition.source import Source, read_source
from tilewright.compiler.pipeline import Model
from tilewright.compiler.session import MemoScope, MemoStage, Session

_SOURCES = MemoStage[Source](64, MemoScope.NETWORK)
_SIMPLIFIED = MemoStage[Answer[Graph]](4_096, MemoScope.NETWORK)
"""By network and part."""


def source_of(model: Model, shapes: Shapes, session: Session, batch: int | None = None) -> Source:
    """As `read_source`, once for a session. Raises CompileError as that does."""
    content = model.SerializeToString(deterministic=True) if isinstance(model, onnx.ModelProto) else model
    return session.memo(_SOURCES, _key(content, shapes, batch), lambda: read_source(content, shapes, batch))


def simplified_part(source: Source, part: Part, session: Session) -> Answer[Graph]:
    """As `simplify_part`, once for a session. Raises DamagedModel as that does."""
    return session.memo(_SIMPLIFIED, (source, part), lambda: simplify_part(source, part, session))


def _key(model: str | Path | bytes, shapes: Shapes, batch: int | None) -> str:
    """A hash of a model's bytes, its open sizes and its images; a path stands for itself."""
    content = model if isinstance(model, bytes) else os.fsencode(model)
    return hashlib.sha256(f"{type(model).__name__} {sorted(shapes.items())} {batch} ".encode() + content).hexdigest()
