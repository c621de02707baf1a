"""The sections of a machine file: array, memories; engine_file.py has its engines, instruction_file.py the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import TypeVar
from weakref import WeakValueDictionary

import yaml

from tilewright.isa.errors import IsaError
from tilewright.isa.files.copies import with_copies
from tilewright.isa.files.dram_ports import check_ports
from tilewright.isa.files.engine_file import EngineReader
from tilewright.isa.files.expression import names_in
from tilewright.isa.files.instruction_context import MachineSizes
from tilewright.isa.files.instruction_file import InstructionReader
from tilewright.isa.files.keys import (
    ARRAY_KEYS,
    DEPTH,
    DRAM_KEYS,
    MACHINE_KEYS,
    MEMORY,
    PARAMETER,
    PIPELINE_KEYS,
    TAKEN_PARAMETERS,
)
from tilewright.isa.files.reader import MOST_COMPLAINTS, TooManyComplaints, ValueReader
from tilewright.isa.files.yaml_tree import Tree
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.engine import Engine, Systolic
from tilewright.isa.machine.machine import USUAL_FETCH_BEATS, ClockGating, Counting, Machine
from tilewright.isa.machine.memory import (
    BYTE_BITS,
    DRAM,
    MOST_MEMORY_PORTS,
    Dram,
    Element,
    Interleave,
    Memory,
    integer_element,
    structured_element,
)
from tilewright.isa.machine.pipeline import Pipeline

MORE = f"there may be more than these {MOST_COMPLAINTS} faults; correct them first"


class MachineFileError(IsaError):
    """Every fault of a machine file: one line each, with its place, the key and what would be right."""

    def __init__(self, complaints: Sequence[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = tuple(complaints)


_Choice = TypeVar("_Choice", bound=Enum)

_BUILT: WeakValueDictionary[str, Machine] = WeakValueDictionary()
"""Machines by their text, as long as something holds them: what was found for a machine is found again."""


def build_machine(tree: Tree, name: str) -> Machine:
    """Check a merged tree and build the machine; the same text gives the same object.

    Raises MachineFileError with every fault found.
    """
    builder = _Builder(tree, name)
    try:
        machine = builder.build()
    except TooManyComplaints:
        raise MachineFileError([*builder.reader.complaints(), MORE]) from None
    return _BUILT.setdefault(machine.text, machine)


class _Builder:
    """Walks the tree once, noting complaints; builds the machine only when there are none."""

    def __init__(self, tree: Tree, name: str) -> None:
        self.reader = ValueReader()
        self._tree = tree
        self._name = name
        self._rounding = Rounding.EVEN
        self._pipeline = Pipeline()
        self._memories: dict[str, Memory] = {}
        self._faulty_memories: list[str] = []  # nothing that follows from these is complained of
        self._engines: dict[str, Engine] = {}
        self._is_array_known = True  # otherwise what follows from its sizes is not complained of

    def build(self) -> Machine:
        top = with_copies(self.reader, self.reader.mapping(self._tree, "", MACHINE_KEYS))
        name = self.reader.word(top["name"], "name") if "name" in top else self._name
        about = self.reader.word(top.get("about"), "about")
        self._read_parameters(top.get("parameters"))
        array = self._read_array(top.get("array"))
        lanes = self.reader.number(top, "", "lanes", MACHINE_KEYS)
        self.reader.names.update(lanes=lanes)
        is_read = self.reader.complaint_count == 0 and array is not None
        for side, count in () if array is None else (("rows", array.rows), ("cols", array.cols)):
            if is_read and count % lanes:
                self.reader.complain(
                    top["lanes"].where, "lanes", f"array.{side} = {count} is not a multiple of lanes = {lanes}"
                )
        self._is_array_known = self.reader.complaint_count == 0
        self._read_rounding(top.get("rounding"))
        wait_bits = self.reader.number(top, "", "wait_bits", MACHINE_KEYS)
        dram = self._read_dram(top.get("dram"))
        fetch_beats = self.reader.number_or(USUAL_FETCH_BEATS, top, "", "fetch_beats", MACHINE_KEYS)
        counting = self._read_counting(top.get("counters"))
        self._read_pipeline(top.get("pipeline"))
        clock_gating = self._choice(top.get("clock_gating"), "clock_gating", ClockGating.NONE)
        self._read_memories(top.get("memories"))
        self._engines = EngineReader(self.reader, self._places(), self._pipeline).read(top.get("engines"), array, lanes)
        check_ports(self.reader, self._engines, dram.ports, top.get("engines"), top.get("dram"))
        formats = InstructionReader(self.reader, self._sizes(wait_bits, dram)).read(top.get("instructions"))
        if self.reader.complaint_count:
            raise MachineFileError(self.reader.complaints())
        return Machine(
            name=name,
            about=about,
            rounding=self._rounding,
            wait_bits=wait_bits,
            lanes=lanes,
            dram=dram,
            memories=self._memories,
            engines=self._engines,
            fetch_beats=fetch_beats,
            counting=counting,
            pipeline=self._pipeline,
            clock_gating=clock_gating,
            formats={format.mnemonic: format for format in formats},
            text=_canonical(self._tree, name),
        )

    def _sizes(self, wait_bits: int, dram: Dram) -> MachineSizes:
        names = self.reader.names
        return MachineSizes(
            lanes=names["lanes"],
            is_array_known=self._is_array_known,
            rounding=self._rounding,
            wait_bits=wait_bits,
            dram=dram,
            memories=self._memories,
            faulty_memories=tuple(self._faulty_memories),
            engines=self._engines,
        )

    def _read_array(self, tree: Tree | None) -> Systolic | None:
        """The sizes of arrays that have none of their own; expressions may use them as rows and cols."""
        if tree is None:
            return None
        keys = self.reader.mapping(tree, "array", ARRAY_KEYS)
        rows, cols = (self.reader.number(keys, "array", side, ARRAY_KEYS) for side in ("rows", "cols"))
        self.reader.names.update(rows=rows, cols=cols)
        return Systolic(rows, cols)

    def _places(self) -> list[str]:
        """Every memory that an engine may name."""
        return [DRAM, *dict.fromkeys([*self._memories, *self._faulty_memories])]

    def _read_parameters(self, tree: Tree | None) -> None:
        """Parameters in the order of the file: each may use those above it, so that none can depend on itself."""
        parameters = self.reader.open_mapping(tree, "parameters")
        unread = set(parameters)
        for name, child in parameters.items():
            before, path = self.reader.complaint_count, f"parameters.{name}"
            if name in TAKEN_PARAMETERS:
                message = f"{name!r} is the machine's own, and expressions may use it: choose another name"
                self.reader.complain(child.where, path, message)
            uses = names_in(child.value) if isinstance(child.value, str) else frozenset()
            too_early = uses & unread
            for used in sorted(too_early):
                where = "itself" if used == name else f"{used!r}, which stands below it"
                self.reader.complain(child.where, path, f"uses {where}; a parameter may use those above it")
            self.reader.names[name] = PARAMETER.low if too_early else self.reader.integer(child, path, PARAMETER)
            if self.reader.complaint_count > before or uses & self.reader.faulty_names:
                self.reader.faulty_names.add(name)
            unread.remove(name)

    def _read_rounding(self, tree: Tree | None) -> None:
        self._rounding = self._choice(tree, "rounding", Rounding.EVEN)

    def _read_counting(self, tree: Tree | None) -> Counting:
        return self._choice(tree, "counters", Counting.ALL)

    def _read_pipeline(self, tree: Tree | None) -> None:
        if tree is None:
            return
        keys = self.reader.mapping(tree, "pipeline", PIPELINE_KEYS)
        said = [key for key in PIPELINE_KEYS if key in keys]
        stages = {key: self.reader.number(keys, "pipeline", key, PIPELINE_KEYS) for key in said}
        self._pipeline = Pipeline(**stages)

    def _choice(self, tree: Tree | None, path: str, default: _Choice) -> _Choice:
        """The member of a closed set that a word names; `default` if it is left out."""
        words = [choice.value for choice in type(default)]
        if tree is None:
            return default
        if tree.value in words:
            return type(default)(tree.value)
        self.reader.complain(tree.where, path, f"expected {', '.join(words)}, not {tree.kind}")
        return default

    def _read_dram(self, tree: Tree | None) -> Dram:
        keys = self.reader.mapping(tree, "dram", DRAM_KEYS)
        said = [key for key, known in DRAM_KEYS.items() if known.is_needed or key in keys]
        return Dram(**{key: self.reader.number(keys, "dram", key, DRAM_KEYS) for key in said})

    def _read_memories(self, tree: Tree | None) -> None:
        for name, child in self.reader.open_mapping(tree, "memories").items():
            if name == DRAM:
                self.reader.complain(
                    child.where, "memories", f"{DRAM!r} is the memory behind the bus; choose another name"
                )
                continue
            before = self.reader.complaint_count
            memory = self._read_memory(child, name)
            if memory is not None:
                self._memories[name] = memory
                if memory.element.type is not None:
                    self.reader.types[name] = memory.element.type
            if self.reader.complaint_count > before:
                self._faulty_memories.append(name)

    def _read_memory(self, tree: Tree, name: str) -> Memory | None:
        path = f"memories.{name}"
        keys = self.reader.mapping(tree, path, MEMORY.keys)
        if not isinstance(tree.value, Mapping):
            return None
        element = self._element(keys.get("element"), f"{path}.element")
        width = self.reader.number(keys, path, "width", MEMORY.keys)
        banks = self.reader.number(keys, path, "banks", MEMORY.keys)
        if ("depth" in keys) == ("kib" in keys):
            self.reader.complain(tree.where, path, "give its size once: either depth (words) or kib (1024 bytes)")
            return None
        if element is None:
            return None
        if width % element.in_a_byte:
            message = f"a word of {width} {element.type} is not whole bytes; give it a multiple of {element.in_a_byte}"
            self.reader.complain(keys.get("width", tree).where, path, message)
            return None
        if "depth" in keys:
            depth = self.reader.number(keys, path, "depth", MEMORY.keys)
        else:
            words = self.reader.number(keys, path, "kib", MEMORY.keys) * 1024 * BYTE_BITS // (width * element.bits)
            depth = words // banks * banks  # what fits, in equal banks
            if depth > DEPTH.high:
                message = f"{depth} words; expected at most {DEPTH.high}: make it smaller or its words wider"
                self.reader.complain(keys["kib"].where, f"{path}.kib", message)
        size = keys.get("depth", keys.get("kib", tree))
        if depth < banks or depth % banks:
            self.reader.complain(size.where, path, f"{depth} words do not divide into {banks} banks")
            depth = max(1, depth // banks) * banks  # a stand-in, so that one fault is reported once
        ports = self.reader.number(keys, path, "ports", MEMORY.keys) if "ports" in keys else MOST_MEMORY_PORTS
        return Memory(name, element, width, depth, banks, ports, self._interleave(keys, path, banks))

    def _interleave(self, keys: Mapping[str, Tree], path: str, banks: int) -> Interleave:
        path = f"{path}.interleave"
        chosen = self._choice(keys.get("interleave"), path, Interleave.NONE)
        if chosen is Interleave.WORDS and banks & (banks - 1):
            message = f"words cannot be interleaved over {banks} banks; expected a power of two of banks, or none"
            self.reader.complain(keys["interleave"].where, path, message)
            return Interleave.NONE
        return chosen

    def _element(self, tree: Tree | None, path: str) -> Element | None:
        if tree is None:
            return None
        if not isinstance(tree.value, Mapping):
            integer = self.reader.type(tree, path)
            return None if integer is None else integer_element(integer)
        types = {
            name: self.reader.type(child, f"{path}.{name}")
            for name, child in self.reader.open_mapping(tree, path).items()
        }
        known = {name: integer for name, integer in types.items() if integer is not None}
        if not known or len(known) < len(types):
            if not types:
                self.reader.complain(tree.where, path, "a structure needs at least one field")
            return None
        return structured_element(known)


def _canonical(tree: Tree, name: str) -> str:
    """The merged file as YAML text, keys in a fixed order, its name first."""
    plain = tree.plain()
    plain["name"] = name
    return "".join(_section(key, json.dumps(plain[key])) for key in MACHINE_KEYS if key in plain)


@lru_cache(maxsize=256)
def _section(key: str, value: str) -> str:
    """A key of the file as YAML text, its value given as JSON: machines that differ in one share the others."""
    section = {key: json.loads(value)}
    return str(yaml.dump(section, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


class _Dumper(yaml.SafeDumper):
    """Writes every value in full: no anchors, so equal machines have equal texts."""

    def ignore_aliases(self, data: object) -> bool:
        return True
