"""The network's own files, NAME.h and NAME.c: constants, and a function for each input and output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilewright.bundle.c_text import array, c_names, comment, integer, real, string
from tilewright.bundle.ends import End
from tilewright.errors import InputError
from tilewright.isa.language.numeric import FloatType
from tilewright.isa.program.program import REGION_ALIGNMENT_BYTES, Program, Tensor, place_regions
from tilewright.isa.program.stored_types import REALS

CONSTANT = ("program", "weights")
"""The regions that never change."""


@dataclass(frozen=True, slots=True)
class Port(End):
    """An input or output of a program, with how it lies in its region."""

    tensor: Tensor


def ports_of(program: Program) -> tuple[Port, ...]:
    """Inputs, then outputs. Raises InputError for one that C cannot have: of 16-bit reals, or with several scales."""
    tensors = [*program.inputs, *program.outputs]
    ways = [True] * len(program.inputs) + [False] * len(program.outputs)
    kinds = [_kind_of(tensor) for tensor in tensors]
    found: dict[bool, dict[str, str]] = {
        True: c_names((tensor.name for tensor in program.inputs), "input"),
        False: c_names((tensor.name for tensor in program.outputs), "output"),
    }
    return tuple(
        Port(tensor.name, found[is_input][tensor.name], kind, tensor.shape, is_input, tensor)
        for tensor, kind, is_input in zip(tensors, kinds, ways, strict=True)
    )


def _kind_of(tensor: Tensor) -> str:
    if tensor.scales is not None:
        raise InputError(
            f"{tensor.name!r} has {len(tensor.scales.values)} scales; a bundle takes one for a whole tensor: "
            "quantise the network's inputs and outputs per tensor"
        )
    if isinstance(tensor.element, FloatType):
        raise InputError(
            f"{tensor.name!r} is {tensor.kind.name} in memory, which the C of a bundle does not convert: quantise it "
            f"with activations of integers"
        )
    if tensor.dtype == "float16":
        raise InputError(f"{tensor.name!r} is float16, which C99 has not: make it float32 in the model")
    return "float" if tensor.dtype in REALS else f"{tensor.kind.dtype.name}_t"


def constants_of(program: Program) -> dict[str, bytes]:
    """The bytes that never change, by the end of their name in C."""
    return {"text": program.text, "weights": program.weights}


def data_source(name: str) -> str:
    """NAME_data.S, for the GNU assembler and clang's: the bytes of NAME_text.bin and NAME_weights.bin as they are."""
    lines = ["/* Symbols begin with an underscore where the object format has them so. */", "    .section .rodata"]
    for what in ("text", "weights"):
        symbol = f"{name}_{what}"
        lines += [
            f"    .balign {REGION_ALIGNMENT_BYTES}",
            f"    .globl {symbol}",
            f"{symbol}:",
            f'    .incbin "{symbol}.bin"',
        ]
    return "\n".join([*lines, '    .section .note.GNU-stack,"",%progbits']) + "\n"


def arena_places(program: Program) -> tuple[dict[str, int], int]:
    """Where each region that a run writes or the host fills lies in the arena, and the arena's bytes."""
    limits = {name: 0 if name in CONSTANT else size for name, size in program.limits.items()}
    places = place_regions(limits)
    return places, max(REGION_ALIGNMENT_BYTES, *(places[name] + limits[name] for name in limits))


def network_header(program: Program, name: str, ports: tuple[Port, ...]) -> str:
    """NAME.h."""
    guard = f"{name.upper()}_H"
    lines = [
        *(f"#ifndef {guard}", f"#define {guard}", "", '#include "tilewright.h"', ""),
        *("#ifdef __cplusplus", 'extern "C" {', "#endif", ""),
        f"extern const tilewright_program {name}_program;",
        "",
        f"#define {name.upper()}_ARENA_BYTES {arena_places(program)[1]}U",
    ]
    for port in ports:
        tensor, macro = port.tensor, f"{name}_{port.name}".upper()
        lines += [
            "",
            f"/* {'Input' if port.is_input else 'Output'} {comment(port.title)}: {port.about}, {tensor.dtype}. */",
        ]
        lines.append(f"#define {macro}_ELEMENTS {port.elements}U")
        if port.is_real:
            lines.append(f"#define {macro}_SCALE {real(tensor.scale)}")
            lines.append(f"#define {macro}_ZERO_POINT ({tensor.zero_point})")
        lines.append(f"{port.signature(name)};")
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def network_source(program: Program, name: str, ports: tuple[Port, ...], has_data: bool) -> str:
    """NAME.c; without data, program and weights are in an object file of their own."""
    places, arena = arena_places(program)
    ends = [layer.first_instruction for layer in program.layers[1:]] + [len(program.instructions)]
    names = [string(layer.name) for layer in program.layers]
    parts = [
        f'#include "{name}.h"\n',
        *(_constant(f"{name}_{what}", content, has_data) for what, content in constants_of(program).items()),
        array("char *const", "layers", names),
        array("uint32_t", "layer_ends", [f"{end}U" for end in ends[: len(names)]]),
        f"const tilewright_program {name}_program = {{\n"
        f"    {string(program.metadata.get('model', name))}, {int(program.machine.hash[:8], 16):#010x}U, "
        f"{name}_text, {name}_weights,\n"
        f"    {{{', '.join(f'{size}U' for size in program.limits.values())}}},\n"
        f"    {{{', '.join(f'{places[region]}U' for region in program.limits)}}},\n"
        f"    {arena}U, layers, layer_ends, {len(names)}U,\n}};\n",
        *(text for port in ports for text in _port_source(port, name, places)),
    ]
    return "\n".join(parts)


def _port_source(port: Port, name: str, places: dict[str, int]) -> Iterator[str]:
    tensor, prefix = port.tensor, f"{'input' if port.is_input else 'output'}_{port.name}"
    view = tensor.view or tensor.shape
    axes = tensor.axes or tuple(range(len(view)))
    steps = [prod(view[axis + 1 :]) for axis in axes]
    windows = [f"{number}U" for number in tensor.windows.numbers] if tensor.windows is not None else []
    yield array("uint32_t", f"{prefix}_sizes", [f"{view[axis]}U" for axis in axes])
    yield array("uint32_t", f"{prefix}_strides", [f"{step}U" for step in steps])
    if windows:
        yield array("uint32_t", f"{prefix}_windows", windows)
    stored = ", ".join(f"{size}U" for size in tensor.stored)
    yield (
        f"static const tilewright_layout {prefix}_layout = {{\n    {{{stored}}}, {tensor.lanes}U, {len(axes)}U, "
        f"{prefix}_sizes, {prefix}_strides, {f'{prefix}_windows' if windows else 'NULL'},\n}};\n"
    )
    region = places["inputs" if port.is_input else "outputs"] + tensor.offset
    yield _set(port, name, prefix, region) if port.is_input else _get(port, name, prefix, region)


def _set(port: Port, name: str, prefix: str, first: int) -> str:
    return f"""\
{port.signature(name)}
{{
    uint8_t *stored = (uint8_t *)arena + {first}U;
    size_t place, places = tilewright_places(&{prefix}_layout);
    for (place = 0; place < places; place++) {{
        size_t element = tilewright_element(&{prefix}_layout, place);
        int32_t value = {port.tensor.zero_point};
        if (element != TILEWRIGHT_NO_ELEMENT) {{
            value = {_to_stored(port)};
        }}
{_stores(port.tensor)}
    }}
}}
"""


def _get(port: Port, name: str, prefix: str, first: int) -> str:
    return f"""\
{port.signature(name)}
{{
    const uint8_t *stored = (const uint8_t *)arena + {first}U;
    size_t place, places = tilewright_places(&{prefix}_layout);
    for (place = 0; place < places; place++) {{
        size_t element = tilewright_element(&{prefix}_layout, place);
        if (element != TILEWRIGHT_NO_ELEMENT) {{
            int32_t value = {_loads(port.tensor)};
            values[element] = {_from_stored(port)};
        }}
    }}
}}
"""


def _to_stored(port: Port) -> str:
    tensor = port.tensor
    if port.is_real:
        limits = tensor.element.interval
        ends = f"{tensor.zero_point}, {integer(limits.low)}, {integer(limits.high)}"
        return f"tilewright_quantize(values[element], {real(tensor.scale)}, {ends})"
    offset = tensor.kind.offset
    return f"(int32_t)values[element]{f' - {offset}' if offset else ''}"


def _from_stored(port: Port) -> str:
    tensor = port.tensor
    if port.is_real:
        zero = f"(value - ({tensor.zero_point}))" if tensor.zero_point else "value"
        return f"{real(tensor.scale)} * (float){zero}"
    offset = tensor.kind.offset
    return f"({port.kind})(value{f' + {offset}' if offset else ''})"


def _stores(tensor: Tensor) -> str:
    """A little-endian element, byte by byte."""
    size = tensor.element_bytes
    return "\n".join(
        f"        stored[place * {size}U + {byte}U] = (uint8_t)((uint32_t)value >> {8 * byte}U);"
        for byte in range(size)
    )


def _loads(tensor: Tensor) -> str:
    size = tensor.element_bytes
    parts = [f"(uint32_t)stored[place * {size}U + {byte}U] << {8 * byte}U" for byte in range(size)]
    kind = f"int{8 * size}_t" if tensor.element.is_signed else f"uint{8 * size}_t"
    return f"(int32_t)({kind})({' | '.join(parts)})"


def _constant(name: str, content: bytes, has_data: bool) -> str:
    if not has_data:
        return f"extern const uint8_t {name}[];\n"
    return array("uint8_t TILEWRIGHT_ALIGNED", name, [str(byte) for byte in content])
