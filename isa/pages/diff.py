"""What changed between two machines, in words: sizes, memories, instructions to the bit, timing, binaries."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from typing import Any

from tilewright.isa import timing
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionField, InstructionFormat, Operand
from tilewright.isa.machine.engine import Engine, Systolic, Template, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.pages.show import kib_text, loops_text, word_text
from tilewright.isa.templates.table import facet_of


def difference(a: Machine, b: Machine) -> tuple[str, ...]:
    """What b has and a lacks, and the other way round: one line each, none if they are the same machine.

    A line starts with the key of the machine file that it is about, or with `timing` or `binary`.
    """
    if a.hash == b.hash:
        return ()
    return (
        *_sizes(a, b),
        *_memories(a.memories, b.memories),
        *_engines(a, b),
        *_instructions(a, b),
        *_timing(a, b),
        *_binary(a, b),
    )


# -- array, memories, engines ------------------------------------------------------------------------------------------


def _sizes(a: Machine, b: Machine) -> Iterator[str]:
    for one, other in _arrays_of_both(a, b):
        old, new = one.array, other.array
        if (old.rows, old.cols) != (new.rows, new.cols):
            macs = f"{old.rows * old.cols} → {new.rows * new.cols} MACs a cycle"
            what = "array" if len(a.of(Template.SYSTOLIC)) == 1 else f"engines.{one}"
            yield f"{what}: {old.rows}×{old.cols} → {new.rows}×{new.cols}, {macs}"
    yield from _change("lanes", a.lanes, b.lanes)
    yield from _change("rounding", a.rounding.value, b.rounding.value)
    yield from _change("wait_bits", a.wait_bits, b.wait_bits)
    yield from _change("fetch_beats", a.fetch_beats, b.fetch_beats)
    yield from _change("counters", a.counting.value, b.counting.value)
    for stage in fields(a.pipeline):
        yield from _change(f"pipeline.{stage.name}", getattr(a.pipeline, stage.name), getattr(b.pipeline, stage.name))
    yield from _change("clock_gating", a.clock_gating.value, b.clock_gating.value)
    for field in fields(a.dram):
        yield from _change(f"dram.{field.name}", getattr(a.dram, field.name), getattr(b.dram, field.name))


def _change(key: str, a: object, b: object) -> Iterator[str]:
    if a != b:
        yield f"{key}: {a} → {b}"


def _settings(engine: Engine) -> dict[str, Any]:
    found = asdict(engine.settings)
    if isinstance(engine.settings, Vector) and engine.settings.parts == 1:
        found["lanes"] = None  # as many as the machine's, which are told above
    return found


def _said(value: object) -> object:
    """A setting as a file says it; those that it may leave to the machine have no value of their own."""
    return "usual" if value is None else value


def _memories(a: Mapping[str, Memory], b: Mapping[str, Memory]) -> Iterator[str]:
    for name in _all_names(a, b):
        path = f"memories.{name}"
        if name not in b:
            yield f"{path}: removed"
        elif name not in a:
            yield f"{path}: added, {kib_text(b[name])} KiB: {b[name].depth} words of {word_text(b[name])}"
        else:
            yield from _memory(path, a[name], b[name])


def _memory(path: str, a: Memory, b: Memory) -> Iterator[str]:
    parts = [
        f"{old} → {new} {unit}"
        for old, new, unit in (
            (kib_text(a), kib_text(b), "KiB"),
            (a.depth, b.depth, "words"),
            (word_text(a), word_text(b), "a word"),
            (a.banks, b.banks, "banks"),
            (a.ports, b.ports, "ports a bank"),
            (a.interleave, b.interleave, "interleaved"),
        )
        if old != new
    ]
    if parts:
        yield f"{path}: {', '.join(parts)}"


def _engines(a: Machine, b: Machine) -> Iterator[str]:
    for name in dict.fromkeys((*a.engines, *b.engines)):
        engine, other = a.engines.get(name), b.engines.get(name)
        if engine is None or other is None:
            found = engine or other
            assert found is not None
            yield f"engines.{name}: {'added' if engine is None else 'removed'}, a {found.template} engine"
            continue
        if engine.template is not other.template:
            yield f"engines.{name}: template {engine.template} → {other.template}"
            continue
        yield from _change(f"engines.{name}.queue", engine.queue_depth, other.queue_depth)
        old, new = _settings(engine), _settings(other)
        sizes = () if isinstance(engine.settings, Systolic) else facet_of(engine.template).keys(old.get("direction"))
        for key in sizes:  # those of an array are told above
            yield from _change(f"engines.{name}.{key}", _said(old[key]), _said(new.get(key)))
        yield from _reach(f"engines.{name}.reads", engine.reads, other.reads)
        yield from _reach(f"engines.{name}.writes", engine.writes, other.writes)


def _reach(path: str, a: Sequence[str], b: Sequence[str]) -> Iterator[str]:
    gained = [name for name in b if name not in a]
    lost = [name for name in a if name not in b]
    words = [f"{word} {', '.join(names)}" for word, names in (("also", gained), ("no longer", lost)) if names]
    if words:
        yield f"{path}: {'; '.join(words)}"


# -- instructions ------------------------------------------------------------------------------------------------------


def _instructions(a: Machine, b: Machine) -> Iterator[str]:
    for name in _all_names(a.formats, b.formats):
        path = f"instructions.{name}"
        if name not in b.formats:
            yield f"{path}: removed"
        elif name not in a.formats:
            format = b.formats[name]
            length = f"{format.bits} bits in {format.bytes} bytes"
            yield f"{path}: added, {format.engine} opcode {format.opcode}, {length}: {format.statement.text}"
        else:
            yield from (f"{path}: {change}" for change in _instruction(a.formats[name], b.formats[name], a, b))


def _instruction(a: InstructionFormat, b: InstructionFormat, one: Machine, other: Machine) -> Iterator[str]:
    yield from _change("engine", a.engine.name, b.engine.name)
    yield from _change("opcode", a.opcode, b.opcode)
    yield from _change("loops", loops_text(a), loops_text(b))
    yield from _change("reduce", ", ".join(a.reduce_loops) or "none", ", ".join(b.reduce_loops) or "none")
    yield from _named("from", _operands(a.sources, one), _operands(b.sources, other))
    yield from _named("to", _operands((a.destination,), one), _operands((b.destination,), other))
    yield from _named("imm", _texts(a.immediates), _texts(b.immediates))
    yield from _change("accumulate", _has(a.has_accumulate), _has(b.has_accumulate))
    yield from _change("do", a.statement.text, b.statement.text)
    yield from _fields(a.fields, b.fields)
    yield from _change("bits in all", a.bits, b.bits)
    yield from _change("bytes", a.bytes, b.bytes)


def _has(flag: bool) -> str:
    return "yes" if flag else "no"


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _operands(operands: Iterable[Operand], machine: Machine) -> dict[str, str]:
    return {operand.name: _operand_text(operand, machine) for operand in operands}


def _operand_text(operand: Operand, machine: Machine) -> str:
    """As a machine file has it: `2 * acc[n, x]`, `16 * wgt[n, k] as int4`."""
    block, memory = f"{operand.block} * " if operand.block > 1 else "", machine.memories.get(operand.memory)
    read_as = "" if memory is None or operand.element == memory.element else f" as {operand.element.type}"
    return f"{block}{operand.memory}[{', '.join(operand.loops)}]{read_as}"


def _named(key: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    for name in _all_names(a, b):
        if name not in b:
            yield f"{key}.{name} removed"
        elif name not in a:
            yield f"{key}.{name} added: {b[name]}"
        else:
            yield from _change(f"{key}.{name}", a[name], b[name])


def _fields(a: Sequence[InstructionField], b: Sequence[InstructionField]) -> Iterator[str]:
    """Fields that were removed, added, resized or moved; neighbours that change alike share a line."""
    before = {field.name: field for field in a}
    after = {field.name for field in b}
    for field in a:
        if field.name not in after:
            yield f"field {field.name} removed, {field.type} at bit {field.low_bit}"
    for alike, run in groupby(b, lambda field: _field_change(before.get(field.name), field)):
        yield from _field_run(alike, list(run), before)


_FieldChange = tuple[bool, int, int]
"""Whether the field is new, the bits that it grew by, and the bits that it moved up by if its width is the same."""


def _field_change(old: InstructionField | None, new: InstructionField) -> _FieldChange:
    if old is None or (old.type.is_signed, old.stored_minus) != (new.type.is_signed, new.stored_minus):
        return True, 0, 0
    wider = new.type.bits - old.type.bits
    return False, wider, 0 if wider else new.low_bit - old.low_bit


def _field_run(
    change: _FieldChange, run: Sequence[InstructionField], before: Mapping[str, InstructionField]
) -> Iterator[str]:
    is_new, wider, higher = change
    first = run[0]
    names = f"field {first.name}" if len(run) == 1 else f"fields {first.name} to {run[-1].name}"
    if is_new:
        yield from (f"field {field.name} added, {field.type} at bit {field.low_bit}" for field in run)
    elif wider:
        old = before[first.name]
        place = f"{old.low_bit} → {first.low_bit}" if old.low_bit != first.low_bit else str(old.low_bit)
        example = f"{old.type} → {first.type} at bit {place}"
        one = "" if len(run) == 1 else f" each, {first.name}"
        yield f"{names}: {_bits(wider, 'wider', 'narrower')}{one or ','} {example}"
    elif higher:
        yield f"{names}: {_bits(higher, 'higher', 'lower')}"


def _bits(by: int, more: str, less: str) -> str:
    return f"{abs(by)} bit{'s' if abs(by) > 1 else ''} {more if by > 0 else less}"


# -- timing and binaries -----------------------------------------------------------------------------------------------


def _timing(a: Machine, b: Machine) -> Iterator[str]:
    for name, about in _figures("machine: Machine").items():
        old, new = getattr(timing, name)(a), getattr(timing, name)(b)
        if old != new:
            yield f"timing.{name}: {old} → {new} cycles. {about}"
    for one, other in _arrays_of_both(a, b):
        own = "" if len(a.of(Template.SYSTOLIC)) == 1 else f" of {one}"
        for name, about in _figures("array: Systolic").items():
            old, new = getattr(timing, name)(one.array), getattr(timing, name)(other.array)
            if old != new:
                yield f"timing.{name}{own}: {old} → {new} cycles. {about}"
    for format in b.formats.values():
        if format.mnemonic in a.formats and a.formats[format.mnemonic].engine.name == format.engine.name:
            both = (a.formats[format.mnemonic], format)
            stages = (facet_of(each.engine.template).stages(each) for each in both)
            yield from _change(f"timing of {format.mnemonic}, in stages", *stages)


def _figures(of: str) -> dict[str, str]:
    """Every latency that `isa.timing` states of a machine, or of an array: functions of it alone, what each is."""
    return {
        name: (function.__doc__ or "").partition("\n")[0].partition(":")[0].rstrip(".") + "."
        for name, function in inspect.getmembers(timing, inspect.isfunction)
        if _needed(inspect.signature(function)) == [of] and inspect.get_annotations(function)["return"] == "int"
    }


def _needed(signature: inspect.Signature) -> list[str]:
    """The parameters that have no default, as they are declared."""
    needed = [each for each in signature.parameters.values() if each.default is inspect.Parameter.empty]
    return [f"{each.name}: {each.annotation}" for each in needed]


def _arrays_of_both(a: Machine, b: Machine) -> Iterator[tuple[Engine, Engine]]:
    """Arrays that both machines have, by name."""
    found = {engine.name: engine for engine in b.of(Template.SYSTOLIC)}
    return ((engine, found[engine.name]) for engine in a.of(Template.SYSTOLIC) if engine.name in found)


def _binary(a: Machine, b: Machine) -> Iterator[str]:
    """What becomes of a's programs on b."""
    shared = [name for name in a.formats if name in b.formats]
    gone = [name for name in a.formats if name not in b.formats]
    other_words = [name for name in shared if _encoding(a.formats[name]) != _encoding(b.formats[name])]
    other_meaning = [name for name in shared if name not in other_words and _meaning(a, name) != _meaning(b, name)]
    smaller = [m.name for m in a.memories.values() if m.name in b.memories and b.memories[m.name].depth < m.depth]
    faults = [
        *([f"{_some(gone, len(a.formats))} missing"] if gone else []),
        *([f"other words for {_some(other_words, len(shared))}"] if other_words else []),
        *([f"the same words mean something else: {_some(other_meaning, len(shared))}"] if other_meaning else []),
        *([f"fewer words in {', '.join(smaller)}"] if smaller else []),
    ]
    if faults:
        yield f"binary: not compatible: {'; '.join(faults)}"
    else:
        yield (
            f"binary: every instruction word of {a.name} means the same on {b.name}, but a file names its machine's "
            "hash: compile again"
        )


def _encoding(format: InstructionFormat) -> tuple[object, ...]:
    return format.opcode, format.fields


def _meaning(machine: Machine, name: str) -> tuple[object, ...]:
    """All that the value of an instruction depends on, besides its fields."""
    format = machine.formats[name]
    widths = tuple(machine.memories[o.memory].width for o in format.operands if o.memory != DRAM)
    loops = tuple((loop.name, loop.is_reduce) for loop in format.loops)
    sizes = facet_of(format.engine.template).sizes_of_values(machine)
    nodes = tuple(
        (n.op, n.name, n.field, n.value, n.type, n.rounding if n.op is Op.ROUND_SHIFT else None, len(n.args))
        for n in walk(format.statement.expr)
    )
    return format.engine.name, loops, format.operands, widths, sizes, format.has_accumulate, nodes


def _some(names: Sequence[str], count: int) -> str:
    return "every instruction" if len(names) == count and count > 1 else ", ".join(names)


def _all_names(a: Iterable[str], b: Iterable[str]) -> list[str]:
    """Names of both, a's first, each once."""
    return list(dict.fromkeys([*a, *b]))
