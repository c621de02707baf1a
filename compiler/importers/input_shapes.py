"""Fixes symbolic sizes of a model's inputs, as `--shape image=1x3x224x224` says: a program is one straight line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from tilewright.compiler.errors import CompileError

Shapes = Mapping[str, tuple[int, ...]]
"""Input → its sizes."""

EXAMPLE_SIZE = 224
"""The size that messages propose where the model has none."""

MAX_DIGITS = 9
"""The most digits of a size; longer numbers are mistakes."""

EXAMPLE = (1, 3, EXAMPLE_SIZE, EXAMPLE_SIZE)


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`image=1x3x224x224` → ("image", (1, 3, 224, 224)); raises CompileError for anything else."""
    name, equals, sizes = text.rpartition("=")
    numbers = sizes.split("x")
    if not (name and equals) or not all(map(_is_size, numbers)):
        raise CompileError(f"--shape {text}", expected="an input's name and its sizes, such as image=1x3x224x224")
    return name, tuple(map(int, numbers))


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Sizes by input, from one text each; raises CompileError when an input is named twice."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, sizes = parse_shape(text)
        if name in shapes:
            raise CompileError(f"--shape {text}", f"the sizes of input {name!r} are already given", remedy="keep one")
        shapes[name] = sizes
    return shapes


def _is_size(text: str) -> bool:
    """True for decimal digits of a number from 1 to what fits ONNX's int64 with room to spare."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and int(text) > 0


def fix_shapes(model: onnx.ModelProto, shapes: Shapes, name: str) -> onnx.ModelProto:
    """The model with these inputs' sizes; a symbol that one input fixes is fixed in all of them.

    Raises CompileError for a name that is no input, another rank, and a size that the model fixes otherwise.
    """
    if not shapes:
        return model
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    initialised = {tensor.name for tensor in fixed.graph.initializer}
    inputs = {value.name: value for value in fixed.graph.input if value.name not in initialised}
    symbols: dict[str, int] = {}
    for wanted, sizes in shapes.items():
        if wanted not in inputs:
            raise CompileError(
                name,
                f"{_option(wanted, sizes)} names no input",
                known=f"there are: {', '.join(map(_on_one_line, inputs))}",
            )
        _fix(inputs[wanted], sizes, symbols, name)
    for value in inputs.values():
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in symbols:
                dimension.dim_value = symbols[dimension.dim_param]
    return fixed


def _fix(value: onnx.ValueInfoProto, sizes: tuple[int, ...], symbols: dict[str, int], name: str) -> None:
    """Give one input its sizes, and note what each of its symbols is."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        for _ in sizes:
            tensor.shape.dim.add()
    option, shown = _option(value.name, sizes), _shown(value)
    if len(tensor.shape.dim) != len(sizes):
        raise CompileError(
            name, f"{option} has {len(sizes)} sizes; input {value.name!r} is [{shown}], with {len(tensor.shape.dim)}"
        )
    for dimension, size in zip(tensor.shape.dim, sizes, strict=True):
        if dimension.HasField("dim_value") and dimension.dim_value > 0 and dimension.dim_value != size:
            raise CompileError(
                name,
                f"{option} contradicts the model: input {value.name!r} is [{shown}]",
                remedy="only what is not a number can be fixed",
            )
        if dimension.dim_param and symbols.setdefault(dimension.dim_param, size) != size:
            raise CompileError(
                name,
                f"{option} makes {dimension.dim_param!r} of input {value.name!r} both {symbols[dimension.dim_param]} "
                f"and {size}",
            )
        dimension.dim_value = size


def dimensions(value: onnx.ValueInfoProto) -> list[int | str]:
    """An input's sizes; what the model leaves open as its symbol, or `?`."""
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else d.dim_param or "?"
        for d in value.type.tensor_type.shape.dim
    ]


def require_fixed_shape(value: onnx.ValueInfoProto, name: str) -> None:
    """Raise CompileError for an input with an open size, and say how to give it one."""
    if not value.type.HasField("tensor_type"):
        raise CompileError(name, f"input {value.name!r} is not a tensor", expected="a tensor of numbers")
    if not value.type.tensor_type.HasField("shape"):
        raise CompileError(
            name, f"input {value.name!r} has no shape", remedy=f"say it, as in {_option(value.name, EXAMPLE)}"
        )
    sizes = dimensions(value)
    if all(isinstance(size, int) for size in sizes):
        return
    # A first size that is open is the batch.
    example = [size if isinstance(size, int) else EXAMPLE_SIZE if axis else 1 for axis, size in enumerate(sizes)]
    raise CompileError(
        name,
        f"input {value.name!r} has the open shape [{_shown(value)}]",
        expected="numbers",
        remedy=f"Say them, as in {_option(value.name, example)}",
    )


def _option(name: str, sizes: tuple[int, ...] | list[int]) -> str:
    return f"--shape {_on_one_line(name)}={'x'.join(map(str, sizes))}"


def _shown(value: onnx.ValueInfoProto) -> str:
    return ", ".join(_on_one_line(str(size)) for size in dimensions(value))


def _on_one_line(name: str) -> str:
    """A name as messages show it; those of damaged files hold control characters."""
    return repr(name)[1:-1]
