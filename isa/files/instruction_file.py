"""The `instructions` section of a machine file: loop nests, operands and statements become formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.isa.errors import did_you_mean
from tilewright.isa.files.instruction_context import Declarations, MachineSizes
from tilewright.isa.files.instruction_operands import OperandReader, with_dram_elements
from tilewright.isa.files.instruction_statement import StatementReader
from tilewright.isa.files.keys import INSTRUCTION_KEYS, LOOP_BITS
from tilewright.isa.files.reader import ValueReader
from tilewright.isa.files.yaml_tree import Tree, Where
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.statement import Statement
from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE, OPCODE_BITS, InstructionFormat, Loop, Operand
from tilewright.isa.machine.engine import Engine, Systolic
from tilewright.isa.machine.field_layout import lay_out_fields
from tilewright.isa.machine.memory import REGIONS
from tilewright.isa.templates.lookups import table_violations
from tilewright.isa.templates.memory_ports import memory_port_violations
from tilewright.isa.templates.shared_ports import shared_ports
from tilewright.isa.templates.table import facet_of

MAX_INSTRUCTION_BITS = 2048


@dataclass(frozen=True, slots=True)
class _InstructionEntry:
    """An instruction of one engine, as the file has it: `name` is what the file calls it, for all of its engines.

    `beside`: the engine that the file names before this one, for the same instruction.
    """

    name: str
    mnemonic: str
    tree: Tree
    keys: Mapping[str, Tree]
    engine: Engine | None
    beside: Engine | None = None

    @property
    def path(self) -> str:
        return f"instructions.{self.name}"

    @property
    def engines_place(self) -> Where | None:
        """Where the file names engines, if what is wrong is so on this one and not on the one beside it."""
        return None if self.beside is None else self.keys["engine"].where


class InstructionReader:
    """Reads instructions one by one, noting complaints in the shared reader."""

    def __init__(self, reader: ValueReader, machine: MachineSizes) -> None:
        self._reader = reader
        self._machine = machine
        self._operands = OperandReader(reader, machine)
        self._statements = StatementReader(reader, machine)

    def read(self, tree: Tree | None) -> list[InstructionFormat]:
        """Every instruction that is right; what is wrong with the others is noted."""
        entries = self._entries(tree)
        formats: list[InstructionFormat] = []
        faulty: set[str] = set()
        for entry, opcode in zip(entries, self._opcodes(entries), strict=True):
            if entry.name in faulty:
                continue  # of another of its engines, the same was complained of
            before = self._reader.complaint_count
            format = self._read_instruction(entry, opcode)
            if self._reader.complaint_count > before:
                faulty.add(entry.name)
            elif format is not None:
                formats.append(format)
        of_mnemonic = {entry.mnemonic: entry for entry in entries}
        for mnemonic, message in self._disagreements(formats):
            entry = of_mnemonic[mnemonic]
            self._reader.complain(entry.tree.where, entry.path, message)
        return formats

    def _entries(self, tree: Tree | None) -> list[_InstructionEntry]:
        """The instructions that the machine has, one for each of their engines: those that `if` does not leave out."""
        entries: list[_InstructionEntry] = []
        for name, child in self._reader.open_mapping(tree, "instructions").items():
            path = f"instructions.{name}"
            keys = self._reader.mapping(child, path, INSTRUCTION_KEYS)
            if "if" in keys and self._reader.number(keys, path, "if", INSTRUCTION_KEYS) != 1:
                continue
            first, *others = self._read_engines(keys.get("engine"), f"{path}.engine")
            entries.append(_InstructionEntry(name, name, child, keys, first))
            others_keys = {key: value for key, value in keys.items() if key != "opcode"}
            entries += [
                _InstructionEntry(name, f"{name}_{engine}", child, others_keys, engine, first) for engine in others
            ]
        self._check_mnemonics(entries)
        return entries

    def _check_mnemonics(self, entries: Sequence[_InstructionEntry]) -> None:
        named = {entry.name for entry in entries}
        for entry in entries:
            if entry.mnemonic != entry.name and entry.mnemonic in named:
                message = f"on {entry.engine} it is called {entry.mnemonic}, as another instruction is; rename that"
                self._reader.complain(entry.tree.where, entry.path, message)

    def _read_engines(self, tree: Tree | None, path: str) -> Sequence[Engine | None]:
        """The engines that an entry names, at least one; None for one that is not there."""
        engines = self._machine.engines
        if tree is not None and isinstance(tree.value, tuple):
            named = self._reader.words(tree, path, list(engines))
            if not tree.value:
                self._reader.complain(tree.where, path, "expected at least one engine")
            return [engines[name] for name in named] or [None]
        name = self._reader.word(tree, path)
        if tree is not None and name not in engines and engines:
            hint = did_you_mean(name, list(engines))
            self._reader.complain(tree.where, path, f"unknown engine {name!r}{hint}; expected {', '.join(engines)}")
        return [engines.get(name)]

    def _opcodes(self, entries: Sequence[_InstructionEntry]) -> Iterator[int]:
        """The opcode of each entry: what it says, or the next that no entry says."""
        chosen = {
            entry.mnemonic: self._reader.number(entry.keys, entry.path, "opcode", INSTRUCTION_KEYS)
            for entry in entries
            if "opcode" in entry.keys
        }
        free = iter(sorted(set(range(1, 1 << OPCODE_BITS)) - set(chosen.values())))
        taken: dict[int, str] = {}
        for entry in entries:
            opcode = chosen[entry.mnemonic] if entry.mnemonic in chosen else next(free, 0)
            if opcode == 0 and entry.mnemonic not in chosen:
                message = f"more instructions than {OPCODE_BITS}-bit opcodes"
                self._reader.complain(entry.tree.where, entry.path, message)
            elif opcode in taken:
                message = f"opcode {opcode} is already that of {taken[opcode]}; choose another or leave it out"
                self._reader.complain(entry.keys.get("opcode", entry.tree).where, f"{entry.path}.opcode", message)
            taken[opcode] = entry.mnemonic
            yield opcode

    def _read_instruction(self, entry: _InstructionEntry, opcode: int) -> InstructionFormat | None:
        engine = entry.engine
        if engine is None or self._uses_faulty_memory(entry):
            return None
        with self._sizes_of(engine):
            declared = self._read_declarations(entry, engine)
        if declared is None:
            return None
        statement = self._statements.read(entry.keys["do"], f"{entry.path}.do", engine, declared)
        if statement is None:
            return None
        self._check_all_used(entry, statement)
        format = self._format(entry, opcode, engine, declared, statement)
        self._check_format(entry, format)
        return format

    @contextmanager
    def _sizes_of(self, engine: Engine) -> Iterator[None]:
        """Rows and cols are the engine's own in what is read of its instructions."""
        names = dict(self._reader.names)
        if isinstance(engine.settings, Systolic):
            self._reader.names.update(rows=engine.settings.rows, cols=engine.settings.cols)
        yield
        self._reader.names.clear()
        self._reader.names.update(names)

    def _uses_faulty_memory(self, entry: _InstructionEntry) -> bool:
        sides = [entry.keys[key].value for key in ("from", "to", "imm") if key in entry.keys]
        texts = [str(child.value) for side in sides if isinstance(side, Mapping) for child in side.values()]
        texts += [str(entry.keys[key].value) for key in ("do",) if key in entry.keys]
        faulty = "|".join(self._machine.faulty_memories)
        return bool(faulty) and any(re.search(rf"\b({faulty})\b", text) for text in texts)

    def _read_declarations(self, entry: _InstructionEntry, engine: Engine) -> Declarations | None:
        """What the statement may use, or None when something is wrong with it, or there is no statement."""
        keys, path, before = entry.keys, entry.path, self._reader.complaint_count
        loops = self._read_loops(keys, path)
        names = [loop.name for loop in loops]
        sources = self._operands.read(keys.get("from"), f"{path}.from", names)
        destinations = self._operands.read(keys.get("to"), f"{path}.to", names)
        immediates = self._read_immediates(keys.get("imm"), f"{path}.imm")
        flags = self._reader.words(keys.get("flags"), f"{path}.flags", [ACCUMULATE])
        self._check_one_destination(keys.get("to"), f"{path}.to", destinations)
        operands = (*sources, *destinations)
        self._check_names(entry, [operand.name for operand in operands], list(immediates))
        self._operands.check_reach(keys, path, engine, sources, destinations, entry.engines_place)
        if self._reader.complaint_count > before or "do" not in keys or not destinations:
            return None
        operands = with_dram_elements(operands)
        return Declarations(loops, operands[:-1], operands[-1], immediates, ACCUMULATE in flags)

    def _read_loops(self, keys: Mapping[str, Tree], path: str) -> tuple[Loop, ...]:
        bits = {
            name: self._reader.integer(child, f"{path}.loops.{name}", LOOP_BITS)
            for name, child in self._reader.open_mapping(keys.get("loops"), f"{path}.loops").items()
        }
        if "loops" in keys and not bits:
            self._reader.complain(
                keys["loops"].where, f"{path}.loops", "an instruction has at least one loop, such as {i: 10}"
            )
        reduce = self._reader.words(keys.get("reduce"), f"{path}.reduce", list(bits))
        return tuple(Loop(name, width, name in reduce) for name, width in bits.items())

    def _read_immediates(self, tree: Tree | None, path: str) -> dict[str, IntegerType]:
        types = {
            name: self._reader.type(child, f"{path}.{name}")
            for name, child in self._reader.open_mapping(tree, path).items()
        }
        return {name: found for name, found in types.items() if found is not None}

    def _check_one_destination(self, tree: Tree | None, path: str, destinations: Sequence[Operand]) -> None:
        if tree is None or not isinstance(tree.value, Mapping) or len(destinations) == 1:
            return
        if len(tree.value) != 1:
            self._reader.complain(tree.where, path, "an instruction has exactly one destination")

    def _check_names(self, entry: _InstructionEntry, operands: Sequence[str], immediates: Sequence[str]) -> None:
        """Operands and immediates need names of their own: fields and assembly text are named after them."""
        names = [*operands, *immediates]
        where, path = entry.tree.where, entry.path
        for name in sorted({name for name in names if names.count(name) > 1}):
            message = f"{name!r} names two things; operands and immediates need different names"
            self._reader.complain(where, path, message)
        for name in immediates:
            if name in (ACCUMULATE, OPCODE):
                self._reader.complain(where, path, f"an immediate cannot be called {name!r}")
        for name in names:
            if name in ("wait", "trip"):
                message = f"{name!r} is the name of every instruction's own fields; choose another"
                self._reader.complain(where, path, message)

    def _check_all_used(self, entry: _InstructionEntry, statement: Statement) -> None:
        used = {node.name for node in walk(statement.expr)}
        for key in ("from", "imm"):
            for name, child in self._reader.open_mapping(entry.keys.get(key), entry.path).items():
                if name not in used:
                    message = "is declared and the statement does not use it; use it or leave it out"
                    self._reader.complain(child.where, f"{entry.path}.{key}.{name}", message)

    def _format(
        self, entry: _InstructionEntry, opcode: int, engine: Engine, declared: Declarations, statement: Statement
    ) -> InstructionFormat:
        fields = lay_out_fields(
            opcode,
            self._machine.engines,
            self._machine.wait_bits,
            declared.loops,
            declared.operands,
            {operand.memory: self._machine.address_bits(operand.memory) for operand in declared.operands},
            max(1, (len(REGIONS) - 1).bit_length()),
            declared.immediates,
            declared.has_accumulate,
            self._operands.read_widths(entry.keys.get("bits"), f"{entry.path}.bits", declared.operands),
        )
        return InstructionFormat(
            mnemonic=entry.mnemonic,
            about=self._reader.word(entry.keys.get("about"), f"{entry.path}.about"),
            opcode=opcode,
            engine=engine,
            loops=declared.loops,
            sources=declared.sources,
            destination=declared.destination,
            immediates=declared.immediates,
            has_accumulate=declared.has_accumulate,
            statement=statement,
            fields=fields,
        )

    def _check_format(self, entry: _InstructionEntry, format: InstructionFormat) -> None:
        """Complain of what the engine cannot do, and of an instruction that is too long."""
        machine = self._machine
        if machine.is_array_known:
            facet = facet_of(format.engine.template)
            for message in facet.violations(format, machine.memories):
                if entry.beside is not None:
                    message = (
                        f"on {format.engine}, {message}; {entry.beside} can run it: give both the same sizes, "
                        f"or {format.engine} an instruction of its own"
                    )
                self._reader.complain(entry.engines_place or entry.keys["do"].where, entry.path, message)
            for operand in format.operands:
                memory = machine.memories.get(operand.memory)
                if memory and operand.element != memory.element and operand is not facet.row_by_row(format):
                    message = f"{operand.name} is read `as {operand.element.type}`; only the weights of an array may be"
                    self._reader.complain(entry.keys["do"].where, entry.path, message)
        if format.bits > MAX_INSTRUCTION_BITS:
            self._reader.complain(
                entry.tree.where,
                entry.path,
                f"needs {format.bits} bits; expected at most {MAX_INSTRUCTION_BITS}: use fewer or narrower loops",
            )

    def _disagreements(self, formats: Sequence[InstructionFormat]) -> Iterator[tuple[str, str]]:
        """(mnemonic, what is wrong) of instructions that cannot be in one machine."""
        for engine in self._machine.engines.values():
            own = [format for format in formats if format.engine is engine]
            yield from facet_of(engine.template).disagreements(own)
        yield from shared_ports(formats)
        if self._machine.is_array_known:
            yield from table_violations(formats, self._machine.memories)
            yield from memory_port_violations(formats, self._machine.memories)
