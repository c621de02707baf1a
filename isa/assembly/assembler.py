"""Assembly text to a Program; `isa.assembly.disassembler` is the way back, and both together are the identity.

A line is a label, a directive or an instruction; `#` begins a comment. What a line does not mention has its default
(trip counts 1, everything else 0):

    .machine base16
    .outputs 1024
    .int32 1, 2, -3, 0 x 13                                  # data: appended to the weights region
    conv1: nodes(/conv1/Conv) macs=2304                       # a layer begins
      load_wgt loops(k=16) d=weights[0; k=16] y=wgt[0; k=1]
      mma      loops(k=2, y=8, x=8) a=act[0x10; k=100, y=10, x=1] w=wgt[0; k=16] c=acc[0; y=8, x=1] wait(load=2)
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.isa.assembly.directives import read_directive
from tilewright.isa.assembly.disassembler import disassemble, format_instruction
from tilewright.isa.assembly.draft import Draft, Reference
from tilewright.isa.assembly.line import AssemblyLine, LineFault, Token, TokenKind
from tilewright.isa.errors import IsaError, did_you_mean
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, InstructionFormat, Operand, make_instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, REGIONS
from tilewright.isa.program.program import Layer, Program

__all__ = ["AssemblyError", "assemble", "disassemble", "format_instruction", "parse_instruction"]

MAX_LAYERS = 1 << 32


class AssemblyError(IsaError):
    """Every fault of a text: one line each, with file, line, column, what came and what would be right."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = tuple(complaints)


def assemble(text: str, machine: Machine, name: str = "assembly") -> Program:
    """The program of an assembly text; messages call the file `name`.

    Raises AssemblyError with all bad lines. Whether the program is safe to run is the checker's to say.
    """
    draft = Draft(machine)
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


def _read_line(line: AssemblyLine, draft: Draft, number: int) -> None:
    if line.is_done:
        return
    first = line.peek
    if first.kind is TokenKind.WORD and first.text.startswith("."):
        read_directive(line, draft)
    elif line.is_label:
        _read_label(line, draft)
    else:
        column = first.column
        instruction, layer = _read_instruction(line, draft.machine)
        implied = len(draft.layers) - 1 if draft.layers else None
        draft.instructions.append(instruction)
        draft.references.append(implied if layer is None else Reference(layer, number, column))
    line.end()


def _read_label(line: AssemblyLine, draft: Draft) -> None:
    """`name:`, then optionally `nodes(a, "b c")` and `macs=100`."""
    name = line.name("a label")
    line.expect(":")
    nodes: list[str] = []
    macs = 0
    try:
        while not line.is_done:
            match line.known_word("part of a label", ("nodes", "macs")).text:
                case "nodes":
                    nodes += line.items(lambda: line.name("a node's name"))
                case "macs":
                    line.expect("=")
                    macs = line.integer("macs", 0, (1 << 63) - 1)
    finally:  # a label with a fault is still a label to those that name it
        draft.layers.append(Layer(name, len(draft.instructions), tuple(nodes), macs))


# -- instructions ------------------------------------------------------------------------------------------------------


def _read_instruction(line: AssemblyLine, machine: Machine) -> tuple[Instruction, str | int | None]:
    """An instruction, and the layer that the line names for it."""
    format = machine.formats[line.known_word("instruction", tuple(machine.formats)).text]
    values: dict[str, int] = {}
    layer: str | int | None = None
    while not line.is_done:
        word = line.word("a loop list, an operand, an immediate or a wait")
        if word.text == "layer" and line.peek.text == "(":
            line.expect("(")
            layer = line.integer("layer", 0, MAX_LAYERS) if line.peek.kind is TokenKind.NUMBER else line.name("a layer")
            line.expect(")")
            continue
        for name, value in _read_part(line, word, format).items():
            if name in values:
                raise LineFault(word.column, f"{name} is given twice")
            values[name] = value
    return make_instruction(format, values), layer


def _read_part(line: AssemblyLine, word: Token, format: InstructionFormat) -> dict[str, int]:
    """Field values of one part of an instruction, such as `loops(k=2)` or `a=act[0; k=1]`."""
    if word.text == "loops":
        return _read_assignments(line, format, "trip.", tuple(loop.name for loop in format.loops), "loop")
    if word.text == "wait":
        return _read_assignments(line, format, "wait.", tuple(engine for engine, _ in format.wait_places), "engine")
    if word.text == ACCUMULATE and format.has_accumulate:
        return {ACCUMULATE: 1}
    operands = {operand.name: operand for operand in format.operands}
    if word.text in operands:
        line.expect("=")
        return _read_operand(line, format, operands[word.text])
    if word.text in format.immediates:
        line.expect("=")
        return {word.text: _field_value(line, format, word.text)}
    known = ["loops", *operands, *format.immediates, *([ACCUMULATE] if format.has_accumulate else []), "wait", "layer"]
    hint = did_you_mean(word.text, known)
    raise LineFault(word.column, f"{format.mnemonic} has no {word.text!r}{hint}; it has: {', '.join(known)}")


def _field_value(line: AssemblyLine, format: InstructionFormat, name: str) -> int:
    described = format.field(name)
    return line.integer(name, described.low, described.high)


def _read_assignments(
    line: AssemblyLine, format: InstructionFormat, prefix: str, known: tuple[str, ...], what: str
) -> dict[str, int]:
    """`(name=value, …)` with names out of `known`."""
    values: dict[str, int] = {}

    def read() -> None:
        token = line.known_word(f"{what} of {format.mnemonic}", known)
        line.expect("=")
        if prefix + token.text in values:
            raise LineFault(token.column, f"{token.text} is given twice")
        values[prefix + token.text] = _field_value(line, format, prefix + token.text)

    line.items(read)
    return values


def _read_operand(line: AssemblyLine, format: InstructionFormat, operand: Operand) -> dict[str, int]:
    """`act[0x10; k=1]` or, in DRAM, `weights[0x40; k=16]`."""
    values = _read_place(line, format, operand)
    line.expect("[")
    values[f"{operand.name}.base"] = _field_value(line, format, f"{operand.name}.base")
    if line.accept(";"):
        while True:
            loop = line.known_word(f"loop of operand {operand.name}", operand.loops)
            name = f"{operand.name}.{loop.text}"
            if name in values:
                raise LineFault(loop.column, f"{name} is given twice")
            line.expect("=")
            values[name] = _field_value(line, format, name)
            if not line.accept(","):
                break
    line.expect("]")
    return values


def _read_place(line: AssemblyLine, format: InstructionFormat, operand: Operand) -> dict[str, int]:
    if operand.memory != DRAM:
        place = line.word(f"the memory {operand.memory}")
        if place.text != operand.memory:
            raise LineFault(place.column, f"operand {operand.name} is in {operand.memory}, not {place.text!r}")
        return {}
    region = format.field(f"{operand.name}.region")
    numbers: Mapping[str, int] = {
        **{name: number for number, name in enumerate(REGIONS)},
        **{f"region{number}": number for number in range(len(REGIONS), region.high + 1)},
    }
    if line.peek.text in numbers:
        return {region.name: numbers[line.take().text]}
    line.known_word("region", REGIONS)
    raise AssertionError("a region that is known was taken above")
