"""The independent checker: proves of a program that it stays in bounds, cannot deadlock or race, and reads no junk.

It knows the machine and the binary, nothing of the compiler. Its proof: each access is inside its memory or region;
waits name earlier instructions only (so some engine can always go on); `isa.check.hazards` orders every pair of
accesses to the same word; what is read was written before or was there from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.feedback import fed_back_word, repeated_sum
from tilewright.isa.check.footprint import Access, affine_ranges, extent, footprint, operand_steps, place_of
from tilewright.isa.check.hazards import Hazard, HazardKind, find_hazards, wait_clocks
from tilewright.isa.engines.templates import systolic_weights
from tilewright.isa.errors import IsaError
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.machine import ENGINES, TEMPLATES
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.program import Program, Tensor


class FindingCode(Enum):
    """What is wrong; the value is how reports spell it."""

    COUNT = "count"  # more instructions of an engine than wait counts can tell apart
    WAIT = "wait"  # a wait for an instruction that is not earlier: a deadlock
    ADDRESS = "address"  # an access outside an on-chip memory, or a block across two banks
    REGION = "region"  # an access outside a DRAM region, or a store into constant data
    FEEDBACK = "feedback"  # an instruction that reads what it wrote itself, or adds two sums into one word
    UNWRITTEN = "unwritten"  # a read of words that nothing has written
    RACE = "race"  # two accesses to a word that no wait puts in order
    LAYERS = "layers"  # the table of layers does not describe the instructions
    TENSOR = "tensor"  # an input or output outside its region, or an output that is never written
    HOST = "host"  # what the host computes of a network in parts is not what its file says


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a program: where, and what to do. `instruction` is None when it is the program's as a whole."""

    code: FindingCode
    instruction: int | None
    layer: str
    message: str

    def __str__(self) -> str:
        where = "program" if self.instruction is None else f"instruction {self.instruction}"
        layer = f" (layer {self.layer})" if self.layer else ""
        return f"{where}{layer}: {self.code.value}: {self.message}"


SHOWN_FINDINGS = 5


def require_valid(program: Program) -> None:
    """Raises IsaError with the first findings and their number when the program has any."""
    findings = check(program)
    if not findings:
        return
    lines = [str(finding) for finding in findings[:SHOWN_FINDINGS]]
    if len(findings) > SHOWN_FINDINGS:
        lines.append(f"… and {len(findings) - SHOWN_FINDINGS} more; {len(findings)} findings in all")
    raise IsaError("\n".join(lines))


def check(program: Program) -> tuple[Finding, ...]:
    """Every fault of a program, in program order; empty for a program that is safe on every run."""
    findings = [*_check_counts(program), *_check_layers(program), *_check_tensors(program)]
    accesses: list[tuple[Access, ...]] = []
    for index, instruction in enumerate(program.instructions):
        touched: tuple[Access, ...] = ()
        try:
            faults = list(_check_instruction(program, index, instruction))
            findings += faults
            if not any(fault.code in (FindingCode.ADDRESS, FindingCode.REGION) for fault in faults):
                touched = footprint(instruction, program.machine)
        except IsaError as error:
            message = f"{instruction.mnemonic}: {error}"
            findings.append(_finding(program, FindingCode.ADDRESS, index, message))
        accesses.append(touched)
    clocks, bad_waits = wait_clocks(program.instructions)
    findings += [_wait_finding(program, index, engine, count) for index, engine, count in bad_waits]
    hazards, unwritten = find_hazards(program, accesses, clocks, _initialised(program), _output_bytes(program))
    findings += [_hazard_finding(program, hazard) for hazard in hazards]
    findings += [
        Finding(
            FindingCode.TENSOR,
            None,
            "",
            f"output {program.outputs[number].name}: byte {first:#x} of its region is never stored; "
            "store every element",
        )
        for number, first in unwritten
    ]
    return tuple(sorted(findings, key=lambda f: -1 if f.instruction is None else f.instruction))


def layer_of(program: Program, index: int) -> str:
    """The name of the layer that an instruction serves, or nothing."""
    name = ""
    for layer in program.layers:
        if layer.first_instruction > index:
            break
        name = layer.name
    if index < len(program.provenance) and 0 <= program.provenance[index] < len(program.layers):
        name = program.layers[program.provenance[index]].name
    return name


def _finding(program: Program, code: FindingCode, index: int, message: str) -> Finding:
    return Finding(code, index, layer_of(program, index), message)


# -- the program as a whole --------------------------------------------------------------------------------------------


def _check_counts(program: Program) -> Iterator[Finding]:
    most = program.machine.max_instructions_per_engine
    for engine in ENGINES:
        count = sum(instruction.engine == engine for instruction in program.instructions)
        if count > most:
            yield Finding(
                FindingCode.COUNT,
                None,
                "",
                f"{count} instructions for {engine}; {program.machine.wait_bits}-bit wait counts reach {most}: "
                "widen wait_bits or use larger tiles",
            )


def _check_layers(program: Program) -> Iterator[Finding]:
    count, firsts = len(program.instructions), [layer.first_instruction for layer in program.layers]
    if any(not 0 <= first <= count for first in firsts) or sorted(firsts) != firsts:
        yield Finding(
            FindingCode.LAYERS, None, "", f"layers begin at {firsts}; expected ascending numbers up to {count}"
        )
    if program.provenance and len(program.provenance) != count:
        yield Finding(
            FindingCode.LAYERS, None, "", f"provenance of {len(program.provenance)} instructions; expected {count}"
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
                yield Finding(
                    FindingCode.TENSOR,
                    None,
                    "",
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


def _check_instruction(program: Program, index: int, instruction: Instruction) -> Iterator[Finding]:
    faults = [
        _finding(program, code, index, f"{instruction.mnemonic}: {message}")
        for operand in instruction.format.operands
        for code, message in _check_operand(program, instruction, operand)
    ]
    yield from faults
    if faults:
        return
    try:
        fed_back = fed_back_word(instruction, program.machine)
        repeats = repeated_sum(instruction)
    except IsaError as error:
        yield _finding(program, FindingCode.FEEDBACK, index, f"{instruction.mnemonic}: {error}")
        return
    if fed_back is not None:
        source, word = fed_back
        yield _finding(
            program,
            FindingCode.FEEDBACK,
            index,
            f"{instruction.mnemonic}: {source} reads word {word:#x} of {instruction.format.destination.memory} after "
            "the instruction has written it; move the destination, or turn the loops round",
        )
    if repeats:
        destination = instruction.format.destination
        yield _finding(
            program,
            FindingCode.FEEDBACK,
            index,
            f"{instruction.mnemonic}: two sums share a word of {destination.memory}; give {destination.name} a stride "
            "for every loop that is not reduced, large enough that no two words are the same",
        )


def _check_operand(program: Program, instruction: Instruction, operand: Operand) -> Iterator[tuple[FindingCode, str]]:
    machine = program.machine
    low, high = extent(instruction, operand, machine)
    if operand.memory == DRAM:
        try:
            region = place_of(instruction, operand)
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
        return
    memory = machine.memories[operand.memory]
    if low < 0 or high > memory.depth:
        yield (
            FindingCode.ADDRESS,
            f"{operand.name} touches words {low:#x} to {high:#x} of {memory.name}, which holds {memory.depth:#x}",
        )
        return
    straddling = _straddling_word(instruction, operand, memory.bank_depth)
    if straddling is not None:
        yield (
            FindingCode.ADDRESS,
            f"{operand.name}: the block of {operand.block} words from {straddling:#x} lies across two banks of "
            f"{memory.name} ({memory.bank_depth:#x} words each); move its base",
        )


def _straddling_word(instruction: Instruction, operand: Operand, bank_depth: int) -> int | None:
    """The first word of a block that does not lie in one bank, or None."""
    of = instruction.format
    reads_row_by_row = TEMPLATES[of.engine] == "systolic" and operand is systolic_weights(of)
    if operand.block == 1 or reads_row_by_row:
        return None
    starts = affine_ranges(instruction.base(operand.name), operand_steps(instruction, operand), 1)
    boundary = (starts[:, 0] // bank_depth + 1) * bank_depth
    first_bad = np.maximum(starts[:, 0], boundary - operand.block + 1)
    is_bad = first_bad < starts[:, 1]
    return int(first_bad[is_bad][0]) if is_bad.any() else None


# -- in words ----------------------------------------------------------------------------------------------------------


def _wait_finding(program: Program, index: int, engine: str, count: int) -> Finding:
    before = sum(instruction.engine == engine for instruction in program.instructions[:index])
    return _finding(
        program,
        FindingCode.WAIT,
        index,
        f"{program.instructions[index].mnemonic} waits for {count} instructions of {engine}; only {before} are earlier "
        "in the program, so it would wait for ever",
    )


def _hazard_finding(program: Program, hazard: Hazard) -> Finding:
    access = hazard.access
    unit = "byte" if access.is_dram else "word"
    mnemonic = program.instructions[hazard.instruction].mnemonic
    does = "writes" if access.is_write else "reads"
    what = f"{mnemonic}: {access.operand} {does} {unit} {hazard.word:#x} of {access.place}"
    if hazard.kind is HazardKind.UNWRITTEN:
        message = f"{what}, which nothing has written; write it first"
        return _finding(program, FindingCode.UNWRITTEN, hazard.instruction, message)
    verb = "writes" if hazard.kind is not HazardKind.WRITE_AFTER_READ else "reads"
    earlier = program.instructions[hazard.earlier]
    message = (
        f"{what} and may overtake instruction {hazard.earlier} ({earlier.mnemonic}), which {verb} it; "
        f"wait({earlier.engine}={hazard.count}) orders them"
    )
    return _finding(program, FindingCode.RACE, hazard.instruction, message)
