"""Covered nests as text and back: the nests, then the steps that compute each, in MLIR's generic syntax.

    "select.cover"() ({
      %t0 = "select.mma"() {statement = "c = wrap(sum(dot(a, w)), int32)", inputs = {a = {tensor = "x"},
          w = {constant_matrix = "w"}}, immediates = {}, reduces = true, words = 576} : () -> !select.acc
      %conv1 = "select.requantize"() {…, inputs = {a = {step = "t0"}, p = {parameters = {bias = "bias", …}}},
          immediates = {zero = 3, low = -128, high = 127}, reduces = false, words = 64} : () -> !select.act
    }) {nest = "conv1"} : () -> ()

A step is an instruction of the machine. Its value has the name of what it computes (the nest's result comes last) and
the memory that it is computed into as its type. Its inputs are named as in the nest's reads. Its statement is there for
the reader, and must be the machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import assert_never

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Nest
from tilewright.compiler.nest.space import NO_LOOP, Correction, nest_space
from tilewright.compiler.nest.text import nests_operation, read_nests
from tilewright.compiler.select.bindings import (
    Binding,
    ComputedMatrix,
    ConstantMatrix,
    Idle,
    Intermediate,
    Parameters,
    TableBinding,
    TensorRead,
)
from tilewright.compiler.select.cover import Cover, Selection, Step
from tilewright.compiler.select.window_sums import adding_instruction
from tilewright.compiler.text.attributes import at_line, attribute, entry, require_attributes
from tilewright.compiler.text.mlir import Attribute, MlirBlock, MlirOperation
from tilewright.compiler.text.parser import parse_program
from tilewright.compiler.text.printer import print_operation
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

DIALECT = "select."
PROGRAM = DIALECT + "program"
COVER = DIALECT + "cover"

MEMORY = "!" + DIALECT
"""What begins the type of a value in a memory."""

TENSOR, STEP, CONSTANT_MATRIX, COMPUTED_MATRIX = "tensor", "step", "constant_matrix", "computed_matrix"
PARAMETERS, FREE, TABLE, LIKE = "parameters", "free", "table", "like"
"""The words for what an operand reads."""

STEP_ATTRIBUTES = (
    *("statement", "inputs", "immediates", "reduces", "words", "uniform", "word_loop", "corrections", "adding"),
)

ADDING = "adding"
"""The attribute that names the instruction which adds up a product's numbers apart from it."""


def print_selection(selection: Selection) -> str:
    """The covered program as text; `parse_selection` gives an equal one back."""
    covers = tuple(_print_cover(cover) for cover in selection.covers)
    attributes = {"machine": selection.machine.name, "machine_hash": selection.machine.hash}
    region = MlirBlock((), (nests_operation(selection.program), *covers))
    return print_operation(MlirOperation(PROGRAM, attributes=attributes, region=region)) + "\n"


def parse_selection(text: str, machine: Machine) -> Selection:
    """The covered program of a text, for the machine that it was printed for.

    Raises CompileError for a fault of the text, IsaError for an instruction that the machine does not have.
    """
    whole = parse_program(text)
    if whole.name != PROGRAM or whole.region is None or not whole.region.operations:
        raise CompileError(fact=f"expected a {PROGRAM!r} with nests and their covers, got {whole.name!r}")
    if attribute(whole, "machine_hash", str) != machine.hash:
        name = attribute(whole, "machine", str)
        raise CompileError(fact=f"the text is for machine {name}, whose description differs from {machine.name}'s")
    first, *covers = whole.region.operations
    program = read_nests(first)
    if len(covers) != len(program.nests):
        raise CompileError(fact=f"{len(program.nests)} nests have {len(covers)} covers", expected="one for each")
    reader, read = _CoverReader(machine), []
    for nest, cover in zip(program.nests, covers, strict=True):
        with at_line(cover):
            read.append(reader.read(nest, cover))
    return Selection(machine, program, tuple(read))


# -- printing ----------------------------------------------------------------------------------------------------------


def _print_cover(cover: Cover) -> MlirOperation:
    names = _step_names(cover.nest, len(cover.steps))
    steps = tuple(_print_step(step, name, names) for step, name in zip(cover.steps, names, strict=True))
    return MlirOperation(COVER, attributes={"nest": cover.nest.name}, region=MlirBlock((), steps))


def _print_step(step: Step, name: str, names: tuple[str, ...]) -> MlirOperation:
    attributes: dict[str, Attribute] = {
        "statement": step.format.statement.text,
        "inputs": {operand: _print_binding(bound, names) for operand, bound in step.inputs.items()},
        "immediates": step.immediates,
        "reduces": step.reduces,
        "words": step.words,
    }
    if step.is_uniform:
        attributes["uniform"] = True
    if step.word_loop != NO_LOOP:
        attributes["word_loop"] = step.word_loop
    if step.corrections:
        attributes["corrections"] = tuple({"number": c.number, "vector": c.is_vector} for c in step.corrections)
    if step.adding is not None:
        attributes[ADDING] = step.adding.mnemonic
    memory = MEMORY + step.format.destination.memory
    return MlirOperation(DIALECT + step.format.mnemonic, results=(name,), attributes=attributes, result_types=(memory,))


def _print_binding(bound: Binding, names: tuple[str, ...]) -> dict[str, Attribute]:
    match bound:
        case TensorRead(read):
            return {TENSOR: read}
        case Intermediate(step):
            return {STEP: names[step]}
        case ConstantMatrix(read):
            return {CONSTANT_MATRIX: read}
        case ComputedMatrix(read):
            return {COMPUTED_MATRIX: read}
        case Parameters(fields, free):
            return {PARAMETERS: fields, **({FREE: tuple(sorted(free))} if free else {})}
        case TableBinding(read):
            return {TABLE: read}
        case Idle(like):
            return {LIKE: like}
        case other:
            assert_never(other)


def _step_names(nest: Nest, count: int) -> tuple[str, ...]:
    """What the steps of a cover compute: t0, t1, …, and at last the nest's result."""
    result = nest.result.tensor
    return (*(f"t{index}" if result != f"t{index}" else f"t{index}'" for index in range(count - 1)), result)


# -- parsing -----------------------------------------------------------------------------------------------------------


class _CoverReader:
    """Reads covers for one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self, nest: Nest, operation: MlirOperation) -> Cover:
        """The cover of a nest."""
        if operation.name != COVER or operation.region is None or not operation.region.operations:
            raise CompileError(fact=f"expected a {COVER!r} with steps, got {operation.name!r}")
        require_attributes(operation, "nest")
        if attribute(operation, "nest", str) != nest.name:
            raise CompileError(
                fact=f"a cover is of nest {operation.attributes['nest']!r}", expected=f"that of {nest.name!r}"
            )
        inside = operation.region.operations
        names, steps = _step_names(nest, len(inside)), []
        for index, step in enumerate(inside):
            with at_line(step):
                steps.append(self._step(nest, step, names, index))
        return Cover(nest, nest_space(nest, self._machine.lanes), tuple(steps))

    def _step(self, nest: Nest, operation: MlirOperation, names: tuple[str, ...], index: int) -> Step:
        require_attributes(operation, *STEP_ATTRIBUTES)
        where = f"nest {nest.name!r}: {operation.name}"
        format = self._machine.format(operation.name.removeprefix(DIALECT))
        expected = (names[index],), (MEMORY + format.destination.memory,)
        if (operation.results, operation.result_types) != expected:
            came = " and ".join(f"%{name} in {memory.removeprefix(MEMORY)}" for name, memory in
                                zip(operation.results, operation.result_types, strict=True))  # fmt: skip
            raise CompileError(
                fact=f"{where} computes {came or 'nothing'}",
                expected=f"%{names[index]} in {format.destination.memory}",
            )
        statement = attribute(operation, "statement", str)
        if statement != format.statement.text:
            raise CompileError(
                where, f"its statement is `{statement}`", remedy=f"the machine's is `{format.statement.text}`"
            )
        inputs = attribute(operation, "inputs", dict)
        _require_names(where, "inputs", inputs, (operand.name for operand in format.sources))
        immediates = attribute(operation, "immediates", dict)
        _require_names(where, "immediates", immediates, format.immediates)
        return Step(
            format,
            {name: _binding(inputs, name, nest, names[:index], format, where) for name in inputs},
            {name: entry(immediates, name, int, where) for name in immediates},
            attribute(operation, "reduces", bool),
            attribute(operation, "words", int),
            "uniform" in operation.attributes and attribute(operation, "uniform", bool),
            tuple(_corrections(operation)),
            _word_loop(operation, nest, format),
            self._adding(operation, format),
            self._machine.continuing.get(format.mnemonic),
        )

    def _adding(self, operation: MlirOperation, format: InstructionFormat) -> InstructionFormat | None:
        """The instruction that adds up a product's numbers apart from it."""
        if ADDING not in operation.attributes:
            return None
        name, known = attribute(operation, ADDING, str), adding_instruction(self._machine, format)
        if known is None or name != known.mnemonic:
            only = "none" if known is None else known.mnemonic
            raise CompileError(operation.name, f"{ADDING} is {name!r}", expected=f"what adds two sums: {only}")
        return known


def _require_names(where: str, what: str, came: Mapping[str, Attribute], expected: Iterable[str]) -> None:
    wanted = sorted(expected)
    if sorted(came) != wanted:
        raise CompileError(where, f"its {what} are {', '.join(came) or 'none'}", expected=", ".join(wanted) or "none")


def _binding(
    inputs: Mapping[str, Attribute],
    name: str,
    nest: Nest,
    earlier: tuple[str, ...],
    format: InstructionFormat,
    where: str,
) -> Binding:
    """What an operand reads; `earlier` names what the steps before compute."""
    words = entry(inputs, name, dict, where)
    others = tuple(operand.name for operand in format.sources if operand.name != name)
    kinds: dict[str, Callable[[], Binding]] = {
        TENSOR: lambda: TensorRead(_one_of(words, TENSOR, nest.reads, where)),
        STEP: lambda: Intermediate(earlier.index(_one_of(words, STEP, earlier, where))),
        CONSTANT_MATRIX: lambda: ConstantMatrix(_one_of(words, CONSTANT_MATRIX, nest.reads, where)),
        COMPUTED_MATRIX: lambda: ComputedMatrix(_one_of(words, COMPUTED_MATRIX, nest.reads, where)),
        PARAMETERS: lambda: _parameters(words, name, nest, format, where),
        TABLE: lambda: TableBinding(_one_of(words, TABLE, nest.reads, where)),
        LIKE: lambda: Idle(_one_of(words, LIKE, others, where)),
    }
    kind = next(iter(words), "")
    if kind not in kinds or (set(words) - {kind}) - ({FREE} if kind == PARAMETERS else set()):
        raise CompileError(
            where, f"{name} reads {', '.join(words) or 'nothing'}", expected=f"one of {', '.join(kinds)}"
        )
    return kinds[kind]()


def _one_of(words: Mapping[str, Attribute], kind: str, known: Collection[str], where: str) -> str:
    name: str = entry(words, kind, str, where)
    if name not in known:
        raise CompileError(where, f"there is no {kind} {name!r}", known=f"there are: {', '.join(known) or 'none'}")
    return name


def _parameters(
    words: Mapping[str, Attribute], operand: str, nest: Nest, format: InstructionFormat, where: str
) -> Parameters:
    fields = entry(words, PARAMETERS, dict, where)
    _require_names(where, f"fields of {operand}", fields, (f.name for f in format.operand(operand).element.fields))
    for name, value in fields.items():
        if isinstance(value, str):
            _one_of(fields, name, nest.reads, where)
        else:
            entry(fields, name, int, where)
    free = entry(words, FREE, tuple, where) if FREE in words else ()
    if not all(isinstance(each, str) and each in fields for each in free):
        raise CompileError(where, f"{operand} has no fields {', '.join(map(str, free))} that could be free")
    return Parameters(fields, frozenset(free))


def _word_loop(operation: MlirOperation, nest: Nest, format: InstructionFormat) -> str:
    """The reduce loop whose iterations are the words of a step's blocks."""
    name: str = attribute(operation, "word_loop", str) if "word_loop" in operation.attributes else NO_LOOP
    words = {format.operand(operand).block for operand in format.statement.blocks}
    fitting = [loop.name for loop in nest.loops if loop.is_reduce and {loop.trip} == words] or [NO_LOOP]
    if name not in fitting:
        raise CompileError(
            f"nest {nest.name!r}: {operation.name}",
            f"its word_loop is {name!r}",
            expected=f"a reduce loop over as many words as its blocks have: {', '.join(fitting) or 'none'}",
        )
    return name


def _corrections(operation: MlirOperation) -> Iterator[Correction]:
    for value in attribute(operation, "corrections", tuple) if "corrections" in operation.attributes else ():
        if not isinstance(value, Mapping):
            raise CompileError(operation.name, f"attribute corrections holds {value!r}", expected="dictionaries")
        number = entry(value, "number", int, operation.name)
        yield Correction(number, entry(value, "vector", bool, operation.name))
