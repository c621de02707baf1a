"""Assembly text to a Program; `isa.disassembler` is the way back, and both together are the identity.

A line is a label, a directive or an instruction; `#` begins a comment. What a line does not mention has its default
(trip counts 1, everything else 0):

    .machine base16
    .outputs 1024
    .int8 1, 2, -3, 0 x 13                                   # data: appended to the weights region
    conv1: nodes(/conv1/Conv) macs=2304                       # a layer begins
      load_wgt loops(k=16) d=weights[0; k=16] y=wgt[0; k=1]
      mma      loops(k=2, y=8, x=8) a=act[0x10; k=100, y=10, x=1] w=wgt[0; k=16] c=acc[0; y=8, x=1] wait(load=2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from isa.assembly_line import AssemblyLine, LineFault, Token
from isa.description import DTYPES
from isa.disassembler import disassemble, format_instruction
from isa.encoding import ACCUMULATE, Instruction, InstructionFormat, Operand, make_instruction
from isa.errors import IsaError
from isa.machine import ENGINES, Machine
from isa.memory import DRAM, REGIONS, Element, integer_element
from isa.numeric import parse_integer_type
from isa.program import Layer, Program, Tensor
from isa.statement import did_you_mean

T = TypeVar("T")

__all__ = ["AssemblyError", "assemble", "disassemble", "format_instruction", "parse_instruction"]

MAX_BYTES = 1 << 40
"""No size, offset or repeat count in a text is larger, whatever the machine's offsets reach."""

MAX_WEIGHTS_BYTES = 1 << 30


class AssemblyError(IsaError):
    """Every fault of a text: one line each, with file, line, column, what came and what would be right."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = tuple(complaints)


def assemble(text: str, machine: Machine, name: str = "assembly") -> Program:
    """The program of an assembly text; `name` stands for the file in messages.

    Raises AssemblyError with all bad lines. Whether the program is safe to run is the checker's to say.
    """
    draft = _Draft(machine)
    complaints = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            _read_line(AssemblyLine(line), draft, number)
        except LineFault as fault:
            complaints.append(f"{name}:{number}:{fault.column}: {fault}")
    for number, column, reference in draft.open_references():
        known = tuple(layer.name for layer in draft.layers)
        hint = did_you_mean(str(reference), known)
        complaints.append(f"{name}:{number}:{column}: no layer {reference!r}{hint}; there are {len(known)} layers")
    if complaints:
        raise AssemblyError(complaints)
    return draft.program()


def parse_instruction(text: str, machine: Machine) -> Instruction:
    """The instruction of one line; raises IsaError with the column of what is wrong."""
    try:
        line = AssemblyLine(text)
        instruction, reference = _read_instruction(line, machine)
        if reference is not None:
            raise LineFault(1, "a single instruction has no layer")
        return instruction
    except LineFault as fault:
        raise IsaError(f"column {fault.column}: {fault}") from fault


@dataclass(slots=True)
class _Reference:
    """`layer(…)` of an instruction: a name, or an index among the layers."""

    layer: str | int
    line: int
    column: int


@dataclass(slots=True)
class _Draft:
    """What has been read so far."""

    machine: Machine
    instructions: list[Instruction] = field(default_factory=list)
    references: list[_Reference | int | None] = field(default_factory=list)  # an int: the label above
    layers: list[Layer] = field(default_factory=list)
    weights: bytearray = field(default_factory=bytearray)
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    has_provenance: bool = True

    def resolve(self, reference: _Reference | int | None) -> int | None:
        """The index of the layer that an instruction serves, or None."""
        if not isinstance(reference, _Reference):
            return reference
        if isinstance(reference.layer, int):
            return reference.layer if reference.layer < len(self.layers) else None
        names = [layer.name for layer in self.layers]
        return names.index(reference.layer) if reference.layer in names else None

    def open_references(self) -> list[tuple[int, int, str | int]]:
        """(line, column, layer) of each reference to a layer that there is not."""
        return [
            (reference.line, reference.column, reference.layer)
            for reference in self.references
            if isinstance(reference, _Reference) and self.resolve(reference) is None
        ]

    def program(self) -> Program:
        served = [self.resolve(reference) for reference in self.references]
        provenance = tuple(layer for layer in served if layer is not None)
        is_complete = self.has_provenance and len(provenance) == len(served)
        return Program(
            machine=self.machine,
            instructions=tuple(self.instructions),
            weights=bytes(self.weights),
            workspace_bytes=self.sizes.get("workspace", 0),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            layers=tuple(self.layers),
            provenance=provenance if is_complete else (),
            input_bytes=self.sizes.get("inputs", 0),
            output_bytes=self.sizes.get("outputs", 0),
            metadata=self.metadata,
        )


def _read_line(line: AssemblyLine, draft: _Draft, number: int) -> None:
    if line.is_done:
        return
    first = line.peek
    if first.kind == "word" and first.text.startswith("."):
        _read_directive(line, draft)
    elif line.is_label:
        _read_label(line, draft)
    else:
        column = first.column
        instruction, layer = _read_instruction(line, draft.machine)
        implied = len(draft.layers) - 1 if draft.layers else None
        draft.instructions.append(instruction)
        draft.references.append(implied if layer is None else _Reference(layer, number, column))
    line.end()


def _read_label(line: AssemblyLine, draft: _Draft) -> None:
    """`name:`, then optionally `nodes(a, "b c")` and `macs=100`."""
    name = line.name("a label")
    line.expect(":")
    nodes: list[str] = []
    macs = 0
    try:
        while not line.is_done:
            match line.known_word("part of a label", ("nodes", "macs")).text:
                case "nodes":
                    nodes += _list(line, lambda: line.name("a node's name"))
                case "macs":
                    line.expect("=")
                    macs = line.integer("macs", 0, (1 << 63) - 1)
    finally:  # a label with a fault is still a label to those that name it
        draft.layers.append(Layer(name, len(draft.instructions), tuple(nodes), macs))


def _list(line: AssemblyLine, read: Callable[[], T]) -> list[T]:
    """`(item, item, …)`, possibly empty."""
    line.expect("(")
    items: list[T] = []
    if line.accept(")"):
        return items
    while True:
        items.append(read())
        if line.accept(")"):
            return items
        line.expect(",")


# -- instructions ------------------------------------------------------------------------------------------------------


def _read_instruction(line: AssemblyLine, machine: Machine) -> tuple[Instruction, str | int | None]:
    """An instruction, and the layer that the line names for it."""
    of = machine.formats[line.known_word("instruction", tuple(machine.formats)).text]
    values: dict[str, int] = {}
    layer: str | int | None = None
    while not line.is_done:
        word = line.word("a loop list, an operand, an immediate or a wait")
        if word.text == "layer" and line.peek.text == "(":
            line.expect("(")
            layer = line.integer("layer", 0, MAX_BYTES) if line.peek.kind == "number" else line.name("a layer")
            line.expect(")")
            continue
        for name, value in _read_part(line, word, of).items():
            if name in values:
                raise LineFault(word.column, f"{name} is given twice")
            values[name] = value
    return make_instruction(of, values), layer


def _read_part(line: AssemblyLine, word: Token, of: InstructionFormat) -> dict[str, int]:
    """Field values of one part of an instruction, such as `loops(k=2)` or `a=act[0; k=1]`."""
    if word.text == "loops":
        return _read_assignments(line, of, "trip.", tuple(loop.name for loop in of.loops), "loop")
    if word.text == "wait":
        return _read_assignments(line, of, "wait.", ENGINES, "engine")
    if word.text == ACCUMULATE and of.has_accumulate:
        return {ACCUMULATE: 1}
    operands = {operand.name: operand for operand in of.operands}
    if word.text in operands:
        line.expect("=")
        return _read_operand(line, of, operands[word.text])
    if word.text in of.immediates:
        line.expect("=")
        return {word.text: _field_value(line, of, word.text)}
    known = ["loops", *operands, *of.immediates, *([ACCUMULATE] if of.has_accumulate else []), "wait", "layer"]
    hint = did_you_mean(word.text, known)
    raise LineFault(word.column, f"{of.mnemonic} has no {word.text!r}{hint}; it has: {', '.join(known)}")


def _field_value(line: AssemblyLine, of: InstructionFormat, name: str) -> int:
    described = of.field(name)
    return line.integer(name, described.low, described.high)


def _read_assignments(
    line: AssemblyLine, of: InstructionFormat, prefix: str, known: tuple[str, ...], what: str
) -> dict[str, int]:
    """`(name=value, …)` with names out of `known`."""
    values: dict[str, int] = {}

    def read() -> None:
        token = line.known_word(f"{what} of {of.mnemonic}", known)
        line.expect("=")
        if prefix + token.text in values:
            raise LineFault(token.column, f"{token.text} is given twice")
        values[prefix + token.text] = _field_value(line, of, prefix + token.text)

    _list(line, read)
    return values


def _read_operand(line: AssemblyLine, of: InstructionFormat, operand: Operand) -> dict[str, int]:
    """`act[0x10; k=1]` or, in DRAM, `weights[0x40; k=16]`."""
    values = _read_place(line, of, operand)
    line.expect("[")
    values[f"{operand.name}.base"] = _field_value(line, of, f"{operand.name}.base")
    if line.accept(";"):
        while True:
            loop = line.known_word(f"loop of operand {operand.name}", operand.loops)
            name = f"{operand.name}.{loop.text}"
            if name in values:
                raise LineFault(loop.column, f"{name} is given twice")
            line.expect("=")
            values[name] = _field_value(line, of, name)
            if not line.accept(","):
                break
    line.expect("]")
    return values


def _read_place(line: AssemblyLine, of: InstructionFormat, operand: Operand) -> dict[str, int]:
    if operand.memory != DRAM:
        place = line.word(f"the memory {operand.memory}")
        if place.text != operand.memory:
            raise LineFault(place.column, f"operand {operand.name} is in {operand.memory}, not {place.text!r}")
        return {}
    region = of.field(f"{operand.name}.region")
    numbers: Mapping[str, int] = {
        **{name: number for number, name in enumerate(REGIONS)},
        **{f"region{number}": number for number in range(len(REGIONS), region.high + 1)},
    }
    if line.peek.text in numbers:
        return {region.name: numbers[line.take().text]}
    line.known_word("region", REGIONS)
    raise AssertionError("a region that is known was taken above")


# -- directives --------------------------------------------------------------------------------------------------------


def _read_directive(line: AssemblyLine, draft: _Draft) -> None:
    directive = line.take()
    name = directive.text[1:]
    structured = {m.name: m.element for m in draft.machine.memories.values() if m.element.fields}
    if name in _DIRECTIVES:
        _DIRECTIVES[name](line, draft)
    elif name in structured:
        _append(draft, _read_structure(line, structured[name], name), directive)
    else:
        element = _plain_element(directive, [*_DIRECTIVES, *structured, "int8", "int32"])
        while not line.is_done:
            _append(draft, _read_values(line, element), directive)
            if not line.accept(","):
                break


def _plain_element(directive: Token, known: list[str]) -> Element:
    """The element of a data directive such as `.int8` or `.uint16`."""
    try:
        return integer_element(parse_integer_type(directive.text[1:]))
    except IsaError:
        names = [f".{name}" for name in known]
        raise LineFault(
            directive.column,
            f"unknown directive {directive.text!r}{did_you_mean(directive.text, names)}; expected {', '.join(names)}",
        ) from None


def _append(draft: _Draft, content: bytes, at: Token) -> None:
    if len(draft.weights) + len(content) > MAX_WEIGHTS_BYTES:
        raise LineFault(at.column, f"more than {MAX_WEIGHTS_BYTES} bytes of weights")
    draft.weights += content


def _read_values(line: AssemblyLine, element: Element) -> bytes:
    """`value`, or `value x count`."""
    assert element.type is not None
    value = line.integer(str(element.type), element.type.interval.low, element.type.interval.high)
    stored = value & ((1 << element.bits) - 1)
    return stored.to_bytes(element.bytes, "little") * _read_repeat(line)


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
        value = line.integer(token.text, part.type.interval.low, part.type.interval.high)
        word |= (value & ((1 << part.type.bits) - 1)) << part.low_bit
    return word.to_bytes(element.bytes, "little") * _read_repeat(line)


def _read_repeat(line: AssemblyLine) -> int:
    return line.integer("count", 0, 1 << 24) if line.accept("x") else 1


def _read_hex(line: AssemblyLine, draft: _Draft) -> None:
    at, digits = line.peek, line.rest.replace(" ", "")
    try:
        content = bytes.fromhex(digits)
    except ValueError:
        raise LineFault(at.column, f"{line.rest!r} is not hexadecimal: expected two digits a byte") from None
    while not line.is_done:
        line.take()
    _append(draft, content, at)


def _read_zeros(line: AssemblyLine, draft: _Draft) -> None:
    at = line.peek
    _append(draft, bytes(line.integer("zeros", 0, MAX_WEIGHTS_BYTES)), at)


def _read_at(line: AssemblyLine, draft: _Draft) -> None:
    """Zeros up to an offset of the weights region."""
    at, here = line.peek, len(draft.weights)
    offset = line.integer("offset", 0, MAX_WEIGHTS_BYTES)
    if offset < here:
        raise LineFault(at.column, f"offset {offset:#x} is behind; the data has reached {here:#x}")
    _append(draft, bytes(offset - here), at)


def _read_machine(line: AssemblyLine, draft: _Draft) -> None:
    at, name = line.peek, line.name("a machine's name")
    if name != draft.machine.name:
        raise LineFault(at.column, f"written for {name}, assembled for {draft.machine.name}; use the machine {name}")


def _read_metadata(line: AssemblyLine, draft: _Draft) -> None:
    at, key = line.peek, line.name("a key")
    if key in draft.metadata:
        raise LineFault(at.column, f"metadata {key!r} is given twice")
    draft.metadata[key] = line.name("a text")


def _read_provenance(line: AssemblyLine, draft: _Draft) -> None:
    line.known_word("provenance", ("none",))
    draft.has_provenance = False


def _read_size(region: str) -> Callable[[AssemblyLine, _Draft], None]:
    def read(line: AssemblyLine, draft: _Draft) -> None:
        at = line.peek
        if region in draft.sizes:
            raise LineFault(at.column, f"the size of {region} is given twice")
        draft.sizes[region] = line.integer(f"bytes of {region}", 0, 1 << draft.machine.dram.offset_bits)

    return read


def _read_input(line: AssemblyLine, draft: _Draft) -> None:
    draft.inputs.append(_read_tensor(line, draft.machine))


def _read_output(line: AssemblyLine, draft: _Draft) -> None:
    draft.outputs.append(_read_tensor(line, draft.machine))


def _read_tensor(line: AssemblyLine, machine: Machine) -> Tensor:
    """`name shape(…) stored(…) dtype=int8 scale=1.0 zero_point=0 offset=0 lanes=16`."""
    at, name = line.peek, line.name("a tensor's name")
    shape: tuple[int, ...] = ()
    stored: tuple[int, ...] = ()
    dtype, scale, zero_point, offset, lanes = "int8", 1.0, 0, 0, machine.lanes
    while not line.is_done:
        match line.known_word(
            "part of a tensor", ("shape", "stored", "dtype", "scale", "zero_point", "offset", "lanes")
        ).text:
            case "shape":
                shape = tuple(_list(line, lambda: line.integer("size", 1, MAX_BYTES - 1)))
            case "stored":
                stored = tuple(_list(line, lambda: line.integer("size", 1, MAX_BYTES - 1)))
            case "dtype":
                line.expect("=")
                dtype = line.known_word("dtype", DTYPES).text
            case "scale":
                line.expect("=")
                scale = line.number("scale")
            case "zero_point":
                line.expect("=")
                zero_point = line.integer("zero_point", -128, 127)
            case "offset":
                line.expect("=")
                offset = line.integer("offset", 0, MAX_BYTES)
            case "lanes":
                line.expect("=")
                lanes = line.integer("lanes", 1, MAX_BYTES - 1)
    stored = stored or (*shape, *[1] * (4 - len(shape)))
    if len(stored) != 4:
        raise LineFault(at.column, f"{name}: stored({', '.join(map(str, stored))}) needs 4 sizes: N, C, H, W")
    return Tensor(name, shape, (stored[0], stored[1], stored[2], stored[3]), dtype, scale, zero_point, offset, lanes)


_DIRECTIVES: Mapping[str, Callable[[AssemblyLine, _Draft], None]] = {
    "machine": _read_machine,
    "metadata": _read_metadata,
    "workspace": _read_size("workspace"),
    "inputs": _read_size("inputs"),
    "outputs": _read_size("outputs"),
    "input": _read_input,
    "output": _read_output,
    "provenance": _read_provenance,
    "hex": _read_hex,
    "zeros": _read_zeros,
    "at": _read_at,
}
