"""A network that is read once and compiled for many machines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from tilewright.compiler.errors import CompileError, first_line
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.session import Session


@dataclass(frozen=True)
class Network:
    """A model's bytes, complete, sizes for those of its inputs that are open, and how many images a run may take.

    What compiling it finds that does not depend on the machine stays in `session`, for the next one in this process.
    """

    name: str
    content: bytes = field(repr=False)
    shapes: Shapes = field(default_factory=dict)
    batch: int | None = None
    session: Session = field(default_factory=Session, repr=False, compare=False)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the bytes, and of the sizes and the batch where there are any; hexadecimal."""
        digest = hashlib.sha256(self.content)
        if self.shapes:
            digest.update(repr(sorted((name, tuple(sizes)) for name, sizes in self.shapes.items())).encode())
        if self.batch is not None:
            digest.update(f"batch {self.batch}".encode())
        return digest.hexdigest()


def read_network(path: str | Path, shapes: Shapes | None = None, name: str = "") -> Network:
    """The network in an ONNX or TFLite file, with the weights that the file keeps in others; named after the file.

    Raises CompileError for a file that cannot be read; what is wrong in it is found when it is compiled.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CompileError(str(path), f"cannot be read: {error.strerror or error}") from error
    return Network(name or path.stem, _complete(content, path), shapes or {})


def read_networks(paths: Sequence[str | Path], shapes: Shapes | None = None) -> list[Network]:
    """The networks in files, each named after its file, or by its path where several files have one name.

    Raises CompileError for a file that cannot be read, and one that is named twice.
    """
    places = [str(path) for path in paths]
    for place in places:
        if places.count(place) > 1:
            raise CompileError(place, "is named twice; name each network once")
    stems = [Path(place).stem for place in places]
    names = [stem if stems.count(stem) == 1 else place for stem, place in zip(stems, places, strict=True)]
    return [read_network(place, shapes, name) for place, name in zip(places, names, strict=True)]


def _complete(content: bytes, path: Path) -> bytes:
    """The file's bytes; with external weights, those of a model that has them inside."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        return content  # TFLite, or damaged: the compiler says what
    if not any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        return content
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise CompileError(str(path), f"weights in another file cannot be read: {first_line(error)}") from error
    return model.SerializeToString(deterministic=True)
