"""The lines of assembly text that begin with a dot: sizes, tensors, metadata, and the data of the weights region."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from math import prod

import numpy as np

from tilewright.isa.assembly.draft import Draft
from tilewright.isa.assembly.line import AssemblyLine, LineFault, Token
from tilewright.isa.errors import IsaError, did_you_mean
from tilewright.isa.language.numeric import FloatType, IntegerType, parse_type
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import BYTE_BITS, Element, integer_element
from tilewright.isa.program.images import require_images
from tilewright.isa.program.program import (
    Scales,
    Tensor,
    require_elements,
    require_scales,
)
from tilewright.isa.program.small_floats import small_float_of
from tilewright.isa.program.stored_types import DEFAULT_TYPE, DTYPES, INTEGERS, stored_type
from tilewright.isa.program.windows import Windows

MAX_BYTES = 1 << 40
"""The largest size or offset in a text, whatever a machine's offsets allow."""

TENSOR_PARTS = tuple(field.name for field in fields(Tensor) if field.name != "name")
"""The properties of an input or output that its line gives, named as in `Tensor`."""

MAX_WEIGHTS_BYTES = 1 << 30


def read_directive(line: AssemblyLine, draft: Draft) -> None:
    """Read a line that begins with a directive, such as `.outputs 1024` or `.int32 1, 2`, into the draft."""
    directive = line.take()
    name = directive.text[1:]
    memories = draft.machine.memories.values()
    structured = {m.name: m.element for m in memories if m.element.fields}
    if name in _DIRECTIVES:
        _DIRECTIVES[name](line, draft)
    elif name in structured:
        _append(draft, _read_structure(line, structured[name], name), directive)
    else:
        types = dict.fromkeys(str(m.element.type) for m in memories if m.element.type)
        element = _plain_element(directive, [*_DIRECTIVES, *structured, *types])
        while not line.is_done:
            _append(draft, _read_values(line, element), directive)
            if not line.accept(","):
                break


def _plain_element(directive: Token, known: list[str]) -> Element:
    """The element of a data directive such as `.int32` or `.uint16`."""
    try:
        return integer_element(parse_type(directive.text[1:]))
    except IsaError:
        names = [f".{name}" for name in known]
        raise LineFault(
            directive.column,
            f"unknown directive {directive.text!r}{did_you_mean(directive.text, names)}; expected {', '.join(names)}",
        ) from None


def _append(draft: Draft, content: bytes, at: Token) -> None:
    if len(draft.weights) + len(content) > MAX_WEIGHTS_BYTES:
        raise LineFault(at.column, f"more than {MAX_WEIGHTS_BYTES} bytes of weights")
    draft.weights += content


def _read_values(line: AssemblyLine, element: Element) -> bytes:
    """`value`, or `value x count`."""
    assert element.type is not None
    value = line.peek.text
    stored = _read_element(line, str(element.type), element.type) & ((1 << element.bits) - 1)
    if element.in_a_byte == 1:
        return stored.to_bytes(element.bytes, "little") * _read_repeat(line)
    column, count = line.peek.column, _read_repeat(line)
    if count % element.in_a_byte:
        expected = f"expected a multiple of {element.in_a_byte}, which fills whole bytes, such as"
        raise LineFault(column, f"{count} of {element.type}; {expected} `{value} x {element.in_a_byte}`; or use .hex")
    return bytes([sum(stored << low for low in range(0, BYTE_BITS, element.bits))]) * (count // element.in_a_byte)


def _read_element(line: AssemblyLine, what: str, of: IntegerType) -> int:
    """An integer, or of a floating type the code of a number that it has."""
    if not isinstance(of, FloatType):
        return line.integer(what, of.interval.low, of.interval.high)
    at, small = line.peek, small_float_of(of)
    number = line.number(what)
    near = small.nearest(np.array(number))
    if near * small.least != number:
        raise LineFault(at.column, f"{what}: {at.text} is no number of {of}; the nearest is {near * small.least:g}")
    return int(small.codes(near))


def _read_structure(line: AssemblyLine, element: Element, memory: str) -> bytes:
    """`field=value field=value x count`; fields that are not named are 0."""
    word = 0
    names = tuple(part.name for part in element.fields)
    seen: set[str] = set()
    while not line.is_done and line.peek.text != "x":
        token = line.known_word(f"field of {memory}", names)
        if token.text in seen:
            raise LineFault(token.column, f"{token.text} is given twice")
        seen.add(token.text)
        line.expect("=")
        part = element.field(token.text)
        value = _read_element(line, token.text, part.type)
        word |= (value & ((1 << part.type.bits) - 1)) << part.low_bit
    return word.to_bytes(element.bytes, "little") * _read_repeat(line)


def _read_repeat(line: AssemblyLine) -> int:
    return line.integer("count", 0, 1 << 24) if line.accept("x") else 1


def _read_hex(line: AssemblyLine, draft: Draft) -> None:
    at, digits = line.peek, line.rest.replace(" ", "")
    try:
        content = bytes.fromhex(digits)
    except ValueError:
        raise LineFault(at.column, f"{line.rest!r} is not hexadecimal: expected two digits a byte") from None
    while not line.is_done:
        line.take()
    _append(draft, content, at)


def _read_zeros(line: AssemblyLine, draft: Draft) -> None:
    at = line.peek
    _append(draft, bytes(line.integer("zeros", 0, MAX_WEIGHTS_BYTES)), at)


def _read_at(line: AssemblyLine, draft: Draft) -> None:
    """Zeros up to an offset of the weights region."""
    at, here = line.peek, len(draft.weights)
    offset = line.integer("offset", 0, MAX_WEIGHTS_BYTES)
    if offset < here:
        raise LineFault(at.column, f"offset {offset:#x} is behind; the data has reached {here:#x}")
    _append(draft, bytes(offset - here), at)


def _read_machine(line: AssemblyLine, draft: Draft) -> None:
    at, name = line.peek, line.name("a machine's name")
    if name != draft.machine.name:
        raise LineFault(at.column, f"written for {name}, assembled for {draft.machine.name}; use the machine {name}")


def _read_metadata(line: AssemblyLine, draft: Draft) -> None:
    at, key = line.peek, line.name("a key")
    if key in draft.metadata:
        raise LineFault(at.column, f"metadata {key!r} is given twice")
    draft.metadata[key] = line.name("a text")


def _read_images(line: AssemblyLine, draft: Draft) -> None:
    """How many images the inputs and outputs before this line hold."""
    at = line.peek
    images = line.integer("images", 1, MAX_BYTES)
    try:
        require_images(images, draft.inputs, draft.outputs)
    except IsaError as error:
        raise LineFault(at.column, str(error)) from None
    draft.images = images


def _read_provenance(line: AssemblyLine, draft: Draft) -> None:
    line.known_word("provenance", ("none",))
    draft.has_provenance = False


def _read_size(region: str) -> Callable[[AssemblyLine, Draft], None]:
    def read(line: AssemblyLine, draft: Draft) -> None:
        at = line.peek
        if region in draft.sizes:
            raise LineFault(at.column, f"the size of {region} is given twice")
        draft.sizes[region] = line.integer(f"bytes of {region}", 0, 1 << draft.machine.dram.offset_bits)

    return read


def _read_input(line: AssemblyLine, draft: Draft) -> None:
    draft.inputs.append(_read_tensor(line, draft.machine))


def _read_output(line: AssemblyLine, draft: Draft) -> None:
    draft.outputs.append(_read_tensor(line, draft.machine))


def _read_tensor(line: AssemblyLine, machine: Machine) -> Tensor:
    """`name shape(…) stored(…) dtype=int16 scale=1.0 zero_point=0 offset=0 lanes=16`, and what `Tensor` has besides."""
    at, name = line.peek, line.name("a tensor's name")
    shape: tuple[int, ...] = ()
    stored = axes = view = shape
    dtype, scale, zero_point, offset, lanes = DEFAULT_TYPE.name, 1.0, 0, 0, machine.lanes
    windows: Windows | None = None
    integers, scales, held = DEFAULT_TYPE.name, None, ""
    while not line.is_done:
        match line.known_word("part of a tensor", TENSOR_PARTS).text:
            case "shape":
                shape = tuple(line.items(lambda: line.integer("size", 1, MAX_BYTES - 1)))
            case "stored":
                stored = tuple(line.items(lambda: line.integer("size", 1, MAX_BYTES - 1)))
            case "dtype":
                line.expect("=")
                dtype = line.known_word("dtype", DTYPES).text
            case "integers":
                line.expect("=")
                integers = line.known_word("integers", INTEGERS).text
            case "held":
                line.expect("=")
                held = _read_held(line, dtype, integers, machine)
            case "scale":
                line.expect("=")
                scale = line.number("scale")
            case "zero_point":
                line.expect("=")
                zero_point = _read_zero_point(line, dtype, integers, held)
            case "offset":
                line.expect("=")
                offset = line.integer("offset", 0, MAX_BYTES)
            case "lanes":
                line.expect("=")
                lanes = line.integer("lanes", 1, MAX_BYTES - 1)
            case "axes":
                axes = _read_axes(line, name, len(view or shape))
            case "view":
                view = _read_view(line, name, shape)
            case "windows":
                windows = _read_windows(line, name)
            case "scales":
                scales = _read_scales(line, dtype, integers, held)
    stored = stored or (*shape, *[1] * (4 - len(shape)))
    if len(stored) != 4:
        raise LineFault(at.column, f"{name}: stored({', '.join(map(str, stored))}) needs 4 sizes: N, C, H, W")
    sizes = (stored[0], stored[1], stored[2], stored[3])
    order = axes, windows, integers, scales, view, held
    tensor = Tensor(name, shape, sizes, dtype, scale, zero_point, offset, lanes, *order)
    try:
        require_elements(tensor)
    except IsaError as error:
        raise LineFault(at.column, f"{name}: {error}") from None
    try:
        require_scales(tensor)
    except IsaError as error:
        raise LineFault(at.column, str(error)) from None
    return tensor


def _read_held(line: AssemblyLine, dtype: str, integers: str, machine: Machine) -> str:
    """The type of a memory's elements, which hold the types that stand before it."""
    at = line.peek
    types = dict.fromkeys(str(memory.element.type) for memory in machine.memories.values() if memory.element.type)
    held = line.known_word("held", tuple(types)).text
    try:
        stored_type(dtype, integers, held)
    except IsaError as error:
        raise LineFault(at.column, str(error)) from None
    return held


def _read_zero_point(line: AssemblyLine, dtype: str, integers: str, held: str) -> int:
    """One of what the types that stand before it hold."""
    limits = stored_type(dtype, integers, held).stored.interval
    return line.integer("zero_point", limits.low, limits.high)


def _read_scales(line: AssemblyLine, dtype: str, integers: str, held: str) -> Scales:
    """`scales(box(1, 1, 8, 8) values(0.5, 0.25) zero_points(0, 3))`"""
    line.expect("(")
    line.expect("box")
    box = line.items(lambda: line.integer("size", 1, MAX_BYTES - 1))
    line.expect("values")
    values = line.items(lambda: line.number("scale"))
    line.expect("zero_points")
    zeros = line.items(lambda: _read_zero_point(line, dtype, integers, held))
    line.expect(")")
    return Scales(tuple(box), tuple(values), tuple(zeros))


def _read_axes(line: AssemblyLine, name: str, rank: int) -> tuple[int, ...]:
    at = line.peek
    axes = tuple(line.items(lambda: line.integer("axis", 0, MAX_BYTES - 1)))
    if sorted(axes) != list(range(rank)):
        raise LineFault(at.column, f"{name}: axes({', '.join(map(str, axes))}) need each of 0 to {rank - 1} once")
    return axes


def _read_view(line: AssemblyLine, name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """What the axes after it turn: as many elements as the shape before it has."""
    at = line.peek
    view = tuple(line.items(lambda: line.integer("size", 1, MAX_BYTES - 1)))
    if prod(view) != prod(shape):
        text = ", ".join(map(str, view))
        raise LineFault(at.column, f"{name}: view({text}) has {prod(view)} elements; its shape has {prod(shape)}")
    return view


def _read_windows(line: AssemblyLine, name: str) -> Windows:
    """`windows(channels, height, width, top, left, fold, down, across)`"""
    at = line.peek
    numbers = line.items(lambda: line.integer("size", 0, MAX_BYTES - 1))
    try:
        return Windows.from_numbers(numbers)
    except IsaError as error:
        raise LineFault(at.column, f"{name}: {error}") from None


_DIRECTIVES: Mapping[str, Callable[[AssemblyLine, Draft], None]] = {
    "machine": _read_machine,
    "metadata": _read_metadata,
    "workspace": _read_size("workspace"),
    "inputs": _read_size("inputs"),
    "outputs": _read_size("outputs"),
    "input": _read_input,
    "output": _read_output,
    "images": _read_images,
    "provenance": _read_provenance,
    "hex": _read_hex,
    "zeros": _read_zeros,
    "at": _read_at,
}
