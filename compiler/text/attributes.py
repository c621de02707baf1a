"""Attributes of operations in texts: read with their kind checked, and the host's tensors as attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tilewright.compiler.errors import CompileError
from tilewright.compiler.text.mlir import Attribute, MlirOperation
from tilewright.isa.errors import IsaError, short
from tilewright.isa.program.program import Scales, Tensor
from tilewright.isa.program.windows import Windows

TENSOR = (
    *("name", "shape", "stored", "dtype", "scale", "zero_point", "offset", "lanes"),
    *("axes", "windows", "integers", "scales", "view", "held"),
)
"""The attributes of a host's tensor."""


@contextmanager
def at_line(operation: MlirOperation) -> Iterator[None]:
    """What is read of an operation: a fault names its line in the text, if it is of one and names none itself."""
    try:
        yield
    except IsaError as error:
        raise CompileError(f"line {operation.line}: {operation.name}", str(error)) from error
    except CompileError as error:
        if not operation.line or str(error).startswith("line "):
            raise
        raise error.inside(f"line {operation.line}") from error


def require_attributes(operation: MlirOperation, *names: str) -> None:
    """Raise CompileError for an attribute that nobody reads."""
    for name in operation.attributes:
        if name not in names:
            raise CompileError(operation.name, f"unknown attribute {name}", expected=f"one of {', '.join(names)}")


def attribute(operation: MlirOperation, name: str, kind: type) -> Attribute:
    """An attribute of an operation; raises CompileError if it is missing or of another kind."""
    return entry(operation.attributes, name, kind, operation.name)


def entry(values: Mapping[str, Attribute], name: str, kind: type, where: str) -> Attribute:
    """The entry of a dictionary of a text; raises CompileError if it is missing or of another kind."""
    if not isinstance(values, Mapping):
        raise CompileError(where, f"got {short(values)}", expected="a dictionary")
    if name not in values:
        raise CompileError(where, f"attribute {name} is missing")
    value = values[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise CompileError(where, f"attribute {name} is {value!r}", expected=f"{kind.__name__}")
    return value


def strings(operation: MlirOperation, name: str) -> tuple[str, ...]:
    """An attribute that is an array of strings."""
    values = attribute(operation, name, tuple)
    for value in values:
        if not isinstance(value, str):
            raise CompileError(operation.name, f"attribute {name} holds {value!r}", expected="strings")
    return tuple(values)


def integers(values: Mapping[str, Attribute], name: str, where: str) -> tuple[int, ...]:
    """An attribute that is an array of integers."""
    found = entry(values, name, tuple, where)
    if not all(type(value) is int for value in found):
        raise CompileError(where, f"attribute {name} holds {short(found)}", expected="integers")
    return tuple(found)


def remarks_attribute(remarks: Mapping[str, str]) -> dict[str, Attribute]:
    """What a user should know of a program, as the one attribute `remarks`; nothing where there is none."""
    return {"remarks": tuple({"about": about, "text": text} for about, text in remarks.items())} if remarks else {}


def parse_remarks(operation: MlirOperation) -> dict[str, str]:
    entries = attribute(operation, "remarks", tuple) if "remarks" in operation.attributes else ()
    return {entry(each, "about", str, "remark"): entry(each, "text", str, "remark") for each in entries}


def tensor_attribute(tensor: Tensor) -> dict[str, Attribute]:
    """A host's tensor as an attribute; `parse_tensor` reads it back."""
    return {
        "name": tensor.name,
        "shape": tensor.shape,
        "stored": tensor.stored,
        "dtype": tensor.dtype,
        "scale": float(tensor.scale),
        "zero_point": tensor.zero_point,
        "offset": tensor.offset,
        "lanes": tensor.lanes,
        "axes": tensor.axes,
        "windows": () if tensor.windows is None else tensor.windows.numbers,
        "integers": tensor.integers,
        "scales": {} if tensor.scales is None else _scales_attribute(tensor.scales),
        **({"view": tensor.view} if tensor.view else {}),
        **({"held": tensor.held} if tensor.held else {}),
    }


def parse_tensor(value: Attribute) -> Tensor:
    if not isinstance(value, Mapping):
        raise CompileError("tensor", f"got {value!r}", expected="a dictionary")

    def read(name: str, kind: type) -> Attribute:
        return entry(value, name, kind, "tensor")

    def numbers(name: str) -> tuple[int, ...]:
        return integers(value, name, "tensor")

    for name in value:
        if name not in TENSOR:
            raise CompileError("tensor", f"unknown attribute {name}", expected=f"one of {', '.join(TENSOR)}")
    windows, scales, stored = numbers("windows"), read("scales", dict), numbers("stored")
    if len(stored) != 4:
        raise CompileError("tensor", f"stored has {len(stored)} sizes", expected="4: [N, C, H, W]")
    return Tensor(
        name=read("name", str),
        shape=numbers("shape"),
        stored=(stored[0], stored[1], stored[2], stored[3]),
        dtype=read("dtype", str),
        scale=read("scale", float),
        zero_point=read("zero_point", int),
        offset=read("offset", int),
        lanes=read("lanes", int),
        axes=numbers("axes"),
        windows=Windows.from_numbers(windows) if windows else None,
        integers=read("integers", str),
        scales=_parse_scales(scales) if scales else None,
        view=numbers("view") if "view" in value else (),
        held=read("held", str) if "held" in value else "",
    )


def _scales_attribute(scales: Scales) -> dict[str, Attribute]:
    return {"box": scales.box, "values": tuple(map(float, scales.values)), "zero_points": scales.zero_points}


def _parse_scales(value: Mapping[str, Attribute]) -> Scales:
    values = entry(value, "values", tuple, "scales")
    if not all(type(each) is float for each in values):
        raise CompileError("scales", f"values are {short(values)}", expected="numbers")
    return Scales(integers(value, "box", "scales"), values, integers(value, "zero_points", "scales"))
