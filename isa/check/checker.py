"""The independent checker: proves of a program that it stays in bounds, cannot deadlock or race, and reads no junk.

It knows the machine and the binary, nothing of the compiler. Its proof: each access is inside its memory or region;
waits name earlier instructions only (so some engine can always go on); `isa.check.hazards` orders every pair of
accesses to the same word; what is read was written before or was there from the start.

How much there is to check follows from the program's numbers alone: no iteration is gone through for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.feedback import fed_back_word, feedback_steps, repeated_sum
from tilewright.isa.check.finding import Finding, FindingCode, instruction_finding, program_finding
from tilewright.isa.check.footprint import (
    MAX_PIECES,
    OperandAccess,
    OperandReach,
    Reaches,
    accesses,
    affine_ranges,
    extent,
    most_pieces,
    operand_steps,
    place_of,
    unit_words,
)
from tilewright.isa.check.hazards import BadWait, Hazard, HazardKind, find_hazards, wait_clocks
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.budgets import DEFAULT_BUDGETS, UNBOUNDED, Budgets, require
from tilewright.isa.program.program import Program, Tensor
from tilewright.isa.templates.table import facet_of

SHOWN_FINDINGS = 5


def require_valid(program: Program) -> None:
    """Raises IsaError with the first findings and their number when the program has any, however long that takes."""
    findings = check(program, UNBOUNDED)
    if not findings:
        return
    lines = [str(finding) for finding in findings[:SHOWN_FINDINGS]]
    if len(findings) > SHOWN_FINDINGS:
        lines.append(f"… and {len(findings) - SHOWN_FINDINGS} more; {len(findings)} findings in all")
    raise IsaError("\n".join(lines))


def check(program: Program, budgets: Budgets = DEFAULT_BUDGETS) -> tuple[Finding, ...]:
    """Every fault of a program, in program order; empty for a program that is safe on every run.

    Time and memory follow the pieces that the accesses are cut into, never the iterations. Raises OverBudget when
    there are more of these than the budget.
    """
    require_checkable(program, budgets)
    findings = [*_check_counts(program), *_check_layers(program), *_check_tensors(program)]
    touched_by: list[tuple[OperandAccess, ...]] = []
    known = Reaches(program.machine)
    for index, instruction in enumerate(program.instructions):
        touched: tuple[OperandAccess, ...] = ()
        try:
            reaches = known.of(instruction)
            faults = _check_instruction(program, index, instruction, reaches)
            findings += faults
            if not faults or not any(fault.code in (FindingCode.ADDRESS, FindingCode.REGION) for fault in faults):
                touched = accesses(instruction, reaches)
        except IsaError as error:
            message = f"{instruction.mnemonic}: {error}"
            findings.append(instruction_finding(program, FindingCode.ADDRESS, index, message))
        touched_by.append(touched)
    clocks, bad_waits = wait_clocks(program)
    findings += [_wait_finding(program, wait) for wait in bad_waits]
    expected = _output_bytes(program)
    hazards, unwritten = find_hazards(program, touched_by, clocks, _initialised(program), expected, budgets)
    findings += [_hazard_finding(program, hazard) for hazard in hazards]
    findings += [
        program_finding(
            FindingCode.TENSOR,
            f"output {program.outputs[number].name}: byte {first:#x} of its region is never stored; "
            "store every element",
        )
        for number, first in unwritten
    ]
    return tuple(sorted(findings, key=lambda f: -1 if f.instruction is None else f.instruction))


# -- the program as a whole --------------------------------------------------------------------------------------------


def _check_counts(program: Program) -> Iterator[Finding]:
    most, counts = program.machine.max_instructions_per_engine, Counter(i.engine.name for i in program.instructions)
    for engine in program.machine.engines:
        count = counts[engine]
        if count > most:
            yield program_finding(
                FindingCode.COUNT,
                f"{count} instructions for {engine}; {program.machine.wait_bits}-bit wait counts reach {most}: "
                "widen wait_bits or use larger tiles",
            )


def _check_layers(program: Program) -> Iterator[Finding]:
    count, firsts = len(program.instructions), [layer.first_instruction for layer in program.layers]
    if any(not 0 <= first <= count for first in firsts) or sorted(firsts) != firsts:
        yield program_finding(FindingCode.LAYERS, f"layers begin at {firsts}; expected ascending numbers up to {count}")
    if program.provenance and len(program.provenance) != count:
        yield program_finding(
            FindingCode.LAYERS, f"provenance of {len(program.provenance)} instructions; expected {count}"
        )
    for index, layer in enumerate(program.provenance):
        if not 0 <= layer < len(program.layers):
            yield Finding(
                FindingCode.LAYERS, index, "", f"serves layer {layer}; the program has {len(program.layers)} layers"
            )


def _check_tensors(program: Program) -> Iterator[Finding]:
    for region, tensors in (("inputs", program.inputs), ("outputs", program.outputs)):
        limit = program.limits[region]
        for tensor in tensors:
            end = tensor.offset + tensor.bytes
            if tensor.offset < 0 or end > limit:
                yield program_finding(
                    FindingCode.TENSOR,
                    f"{tensor.name} takes bytes {tensor.offset:#x} to {end:#x} of {region}, which holds {limit:#x}",
                )


def _output_bytes(program: Program) -> list[NDArray[np.int64]]:
    """Per output, the byte ranges of its elements; lanes beyond its channels may hold anything."""
    limit = program.limits["outputs"]
    found = []
    for tensor in program.outputs:
        end = tensor.offset + tensor.bytes
        is_inside = 0 <= tensor.offset < end <= limit
        found.append(_element_ranges(tensor) if is_inside else np.empty((0, 2), np.int64))
    return found


def _element_ranges(tensor: Tensor) -> NDArray[np.int64]:
    batch, channels, height, width = tensor.stored
    word = tensor.lanes * tensor.element_bytes
    plane = height * width * word
    blocks, rest = divmod(channels, tensor.lanes)
    image = (blocks + (rest > 0)) * plane
    parts = []
    if blocks:
        parts.append(affine_ranges(tensor.offset, ((image, batch),), blocks * plane))
    if rest:
        steps = ((image, batch), (word, height * width))
        parts.append(affine_ranges(tensor.offset + blocks * plane, steps, rest * tensor.element_bytes))
    return np.concatenate(parts)


def _initialised(program: Program) -> dict[str, int]:
    """Bytes of each region that hold something before the first instruction, from its start on."""
    limits = program.limits
    return {region: limits[region] for region in ("program", "weights", "inputs")}


# -- one instruction ---------------------------------------------------------------------------------------------------

CONSTANT_REGIONS = ("program", "weights")
"""Regions that a store must not change: they are fetched ahead, and must be the same in the next run."""


def _check_instruction(
    program: Program, index: int, instruction: Instruction, reaches: Sequence[OperandReach]
) -> list[Finding]:
    faults = [
        instruction_finding(program, code, index, f"{instruction.mnemonic}: {message}")
        for reach in reaches
        for code, message in _check_operand(program, instruction, reach)
    ]
    return faults or _check_feedback(program, index, instruction, reaches)


def _check_feedback(
    program: Program, index: int, instruction: Instruction, reaches: Sequence[OperandReach]
) -> list[Finding]:
    """That an instruction in bounds does not feed itself, and adds no two sums into one word."""
    memory, found = instruction.format.destination.memory, []
    try:
        fed_back = fed_back_word(instruction, reaches)
        repeats = repeated_sum(instruction)
    except IsaError as error:
        return [instruction_finding(program, FindingCode.FEEDBACK, index, f"{instruction.mnemonic}: {error}")]
    if fed_back is not None:
        source, word = fed_back
        found.append(
            f"{source} reads word {word:#x} of {memory} after the instruction has written it; move the destination, or "
            "turn the loops round"
        )
    if repeats:
        found.append(
            f"two sums share a word of {memory}; give {instruction.format.destination.name} a stride for every loop "
            "that is not reduced, large enough that no two words are the same"
        )
    return [
        instruction_finding(program, FindingCode.FEEDBACK, index, f"{instruction.mnemonic}: {message}")
        for message in found
    ]


def _check_operand(
    program: Program, instruction: Instruction, reach: OperandReach
) -> Iterable[tuple[FindingCode, str]]:
    operand, base = reach.operand, instruction.values[reach.base]
    low, high = base + reach.low, base + reach.high
    if operand.memory == DRAM:
        return _check_region(program, instruction, reach, low, high)
    memory = program.machine.memories[operand.memory]
    if low < 0 or high > memory.depth:
        fact = f"touches words {low:#x} to {high:#x} of {memory.name}, which holds {memory.depth:#x}"
        return [(FindingCode.ADDRESS, f"{operand.name} {fact}")]
    if operand.block == 1:
        return ()
    straddling = _straddling_word(instruction, operand, memory.stretch_words)
    if straddling is None:
        return ()
    fact = f"the block of {operand.block} words from {straddling:#x} lies across two banks of {memory.name}"
    return [(FindingCode.ADDRESS, f"{operand.name}: {fact} ({memory.stretch_words:#x} words each); move its base")]


def _check_region(
    program: Program, instruction: Instruction, reach: OperandReach, low: int, high: int
) -> Iterator[tuple[FindingCode, str]]:
    operand = reach.operand
    try:
        region = reach.place or place_of(instruction, operand)
    except IsaError as error:
        yield FindingCode.REGION, str(error)
        return
    limit = program.limits[region]
    if low < 0 or high > limit:
        yield (
            FindingCode.REGION,
            f"{operand.name} touches bytes {low:#x} to {high:#x} of {region}, which holds {limit:#x}; "
            "correct base and strides, or make the region larger",
        )
    if operand is instruction.format.destination and region in CONSTANT_REGIONS:
        yield (
            FindingCode.REGION,
            f"{operand.name} stores into {region}, which is constant; use workspace or outputs",
        )


def _straddling_word(instruction: Instruction, operand: Operand, stretch_words: int) -> int | None:
    """The first word of a block that does not lie in one bank, or None."""
    format = instruction.format
    if operand is facet_of(format.engine.template).row_by_row(format):
        return None
    starts = affine_ranges(instruction.base(operand.name), operand_steps(instruction, operand), 1)
    boundary = (starts[:, 0] // stretch_words + 1) * stretch_words
    first_bad = np.maximum(starts[:, 0], boundary - operand.block + 1)
    is_bad = first_bad < starts[:, 1]
    return int(first_bad[is_bad][0]) if is_bad.any() else None


# -- in words ----------------------------------------------------------------------------------------------------------


def _wait_finding(program: Program, wait: BadWait) -> Finding:
    return instruction_finding(
        program,
        FindingCode.WAIT,
        wait.instruction,
        f"{program.instructions[wait.instruction].mnemonic} waits for {wait.count} instructions of {wait.engine}; only "
        f"{wait.earlier} are earlier in the program, so it would wait for ever",
    )


def _hazard_finding(program: Program, hazard: Hazard) -> Finding:
    access = hazard.access
    unit = "byte" if access.is_dram else "word"
    mnemonic = program.instructions[hazard.instruction].mnemonic
    does = "writes" if access.is_write else "reads"
    what = f"{mnemonic}: {access.operand} {does} {unit} {hazard.word:#x} of {access.place}"
    match hazard.kind:
        case HazardKind.UNWRITTEN:
            message = f"{what}, which nothing has written; write it first"
            return instruction_finding(program, FindingCode.UNWRITTEN, hazard.instruction, message)
        case HazardKind.READ_AFTER_WRITE | HazardKind.WRITE_AFTER_WRITE:
            verb = "writes"
        case HazardKind.WRITE_AFTER_READ:
            verb = "reads"
        case _:
            assert_never(hazard.kind)
    earlier = program.instructions[hazard.earlier]
    message = (
        f"{what} and may overtake instruction {hazard.earlier} ({earlier.mnemonic}), which {verb} it; "
        f"wait({earlier.engine}={hazard.count}) orders them"
    )
    return instruction_finding(program, FindingCode.RACE, hazard.instruction, message)


STEPS_IN_A_PIECE = 64
"""Steps over arrays that take about as long as a piece does."""


def require_checkable(program: Program, budgets: Budgets) -> None:
    """Raise OverBudget when the accesses of a program are cut into more pieces than are looked at."""
    if budgets == UNBOUNDED:
        return
    reaches = Reaches(program.machine)
    pieces = sum(_pieces(program, instruction, reaches) for instruction in program.instructions)
    pieces += sum(_output_pieces(program, tensor) for tensor in program.outputs)
    require(budgets, "pieces", pieces, "the accesses are cut into up to %s of memory, each to be checked")


def _pieces(program: Program, instruction: Instruction, reaches: Reaches) -> int:
    """Pieces of an instruction's operands; 0 of one out of bounds, which is a fault that is seen without them."""
    operands = instruction.format.operands
    if not all(_is_inside(program, instruction, operand) for operand in operands):
        return 0
    steps = feedback_steps(instruction, reaches.of(instruction))
    return sum(_operand_pieces(program, instruction, operand) for operand in operands) + steps // STEPS_IN_A_PIECE


def _operand_pieces(program: Program, instruction: Instruction, operand: Operand) -> int:
    steps = operand_steps(instruction, operand)
    pieces = most_pieces(steps, unit_words(instruction, operand, program.machine))
    return min(MAX_PIECES, pieces + (most_pieces(steps, 1) if operand.memory != DRAM and operand.block > 1 else 0))


def _is_inside(program: Program, instruction: Instruction, operand: Operand) -> bool:
    low, high = extent(instruction, operand, program.machine)
    if operand.memory != DRAM:
        return low >= 0 and high <= program.machine.memories[operand.memory].depth
    try:
        return low >= 0 and high <= program.limits[place_of(instruction, operand)]
    except IsaError:
        return False


def _output_pieces(program: Program, tensor: Tensor) -> int:
    """Pieces of an output's elements: one for each pixel where its last channels do not fill words."""
    batch, channels, height, width = tensor.stored
    is_inside = 0 <= tensor.offset < tensor.offset + tensor.bytes <= program.limits["outputs"]
    return batch * height * width if channels % tensor.lanes and is_inside else 0
