"""A Program as assembly text that `isa.assembly.assembler` turns back into the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa.assembly.line import quoted
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, Operand
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.program import Layer, Program, Scales, Tensor
from tilewright.isa.program.stored_types import DEFAULT_TYPE

HEX_BYTES = 32
"""The number of data bytes in a line."""


def disassemble(program: Program) -> str:
    """The whole program as text; assembling it gives an equal program.

    Raises IsaError if layers are out of order, or the provenance is not that of the instructions.
    """
    return "\n".join([*_head(program), *_data(program.weights), *_code(program)]) + "\n"


def format_instruction(instruction: Instruction) -> str:
    """One line: `mma loops(k=2, x=8) a=act[0x10; k=64, x=1] … accumulate wait(load=2)`; what is default is left out."""
    format = instruction.format
    trips = {loop: trip for loop, trip in instruction.trips.items() if trip != 1}
    waits = {engine: count for engine, count in instruction.waits.items() if count}
    parts = [format.mnemonic]
    parts += [_call("loops", trips)] if trips else []
    parts += [_operand(instruction, operand) for operand in format.operands]
    parts += [f"{name}={instruction[name]}" for name in format.immediates if instruction[name]]
    parts += [ACCUMULATE] if format.has_accumulate and instruction[ACCUMULATE] else []
    parts += [_call("wait", waits)] if waits else []
    return " ".join(parts)


def _call(word: str, values: dict[str, int]) -> str:
    return f"{word}({', '.join(f'{name}={value}' for name, value in values.items())})"


def _operand(instruction: Instruction, operand: Operand) -> str:
    place = operand.memory
    if operand.memory == DRAM:
        number = instruction[f"{operand.name}.region"]
        place = REGIONS[number] if number < len(REGIONS) else f"region{number}"
    strides = {loop: instruction[f"{operand.name}.{loop}"] for loop in operand.loops}
    moving = ", ".join(f"{loop}={stride}" for loop, stride in strides.items() if stride)
    base = instruction.base(operand.name)
    return f"{operand.name}={place}[{base:#x}{'; ' if moving else ''}{moving}]"


def _head(program: Program) -> Iterator[str]:
    yield f".machine {quoted(program.machine.name)}"
    for key, text in sorted(program.metadata.items()):
        yield f".metadata {quoted(key)} {quoted(text)}"
    for region in ("workspace", "inputs", "outputs"):
        if program.limits[region]:
            yield f".{region} {program.limits[region]}"
    yield from (f".input {_tensor(tensor)}" for tensor in program.inputs)
    yield from (f".output {_tensor(tensor)}" for tensor in program.outputs)
    if program.images is not None:
        yield f".images {program.images}"


def _tensor(tensor: Tensor) -> str:
    shape, stored = (", ".join(map(str, sizes)) for sizes in (tensor.shape, tensor.stored))
    integers = "" if tensor.integers == DEFAULT_TYPE.name else f" integers={tensor.integers}"
    integers += f" held={tensor.held}" if tensor.held else ""
    return (
        f"{quoted(tensor.name)} shape({shape}) stored({stored}) dtype={tensor.dtype}{integers} "
        f"scale={float(tensor.scale)!r} zero_point={tensor.zero_point} offset={tensor.offset:#x} lanes={tensor.lanes}"
        f"{_order(tensor)}{_scales(tensor.scales)}"
    )


def _scales(scales: Scales | None) -> str:
    """The scales of a tensor that has more than one; empty for most tensors."""
    if scales is None:
        return ""
    numbers = (scales.box, map(float, scales.values), scales.zero_points)
    box, values, zeros = (", ".join(map(repr, each)) for each in numbers)
    return f" scales(box({box}) values({values}) zero_points({zeros}))"


def _order(tensor: Tensor) -> str:
    """What else says how the host's elements are ordered; empty for most tensors."""
    view = f" view({', '.join(map(str, tensor.view))})" if tensor.view else ""
    axes = f"{view} axes({', '.join(map(str, tensor.axes))})" if tensor.axes else view
    return axes if tensor.windows is None else f"{axes} windows({', '.join(map(str, tensor.windows.numbers))})"


def _data(weights: bytes) -> Iterator[str]:
    """Lines of hexadecimal digits, each with its offset; long runs of zeros as a count."""
    zeros = 0
    for start in range(0, len(weights), HEX_BYTES):
        line = weights[start : start + HEX_BYTES]
        if not any(line):
            zeros += len(line)
            continue
        if zeros:
            yield f".zeros {zeros}"
        zeros = 0
        yield f".hex {line.hex():{2 * HEX_BYTES}}  # {start:#x}"
    if zeros:
        yield f".zeros {zeros}"


def _code(program: Program) -> Iterator[str]:
    firsts = [layer.first_instruction for layer in program.layers]
    if sorted(firsts) != firsts or any(not 0 <= first <= len(program.instructions) for first in firsts):
        raise IsaError(f"layers begin at instructions {firsts}; expected ascending numbers to be written as labels")
    if program.provenance and len(program.provenance) != len(program.instructions):
        raise IsaError(
            f"provenance of {len(program.provenance)} instructions; expected {len(program.instructions)} or none"
        )
    if program.layers and not program.provenance and program.instructions and firsts[0] == 0:
        yield ".provenance none"
    above, layers = -1, iter([*enumerate(program.layers), (-1, None)])
    number, layer = next(layers)
    for index, instruction in enumerate(program.instructions):
        while layer is not None and layer.first_instruction == index:
            yield _label(layer)
            above = number
            number, layer = next(layers)
        served = program.provenance[index] if program.provenance else above
        yield f"  {format_instruction(instruction)}" + (f" layer({served})" if served != above else "")
    while layer is not None:
        yield _label(layer)
        number, layer = next(layers)


def _label(layer: Layer) -> str:
    nodes = f" nodes({', '.join(map(quoted, layer.nodes))})" if layer.nodes else ""
    macs = f" macs={layer.macs}" if layer.macs else ""
    return f"{quoted(layer.name)}:{nodes}{macs}"
