"""Every key of a machine file: whether it must be there, what it holds, what it means.

The loader checks with these tables, and the JSON Schema for editors is generated from them (`isa.files.schema`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import assert_never

import yaml

from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE_BITS
from tilewright.isa.machine.engine import Direction, Dma, Template
from tilewright.isa.machine.machine import USUAL_FETCH_BEATS, Counting
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.timing import BURST_BEATS

NAME = "[A-Za-z_][A-Za-z0-9_]*"
"""The pattern for whole names of memories, instructions, loops, operands, immediates and parameters."""

QUOTED_NUMBER = r"\s*[-+]?[0-9_.]+\s*"
"""A string that is a number in quotes: refused where a number is expected."""

# -- kinds of values ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer from `low` to `high`, or an expression over parameters that gives one."""

    low: int
    high: int
    is_power_of_two: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A string: one of `choices`, or any if there are none; `pattern` is what every right one matches."""

    choices: tuple[str, ...] = ()
    pattern: str = ""
    examples: tuple[str, ...] = ()

    def may_be(self, text: str) -> bool:
        """Whether the pattern allows a text; more may be asked of it."""
        return not self.pattern or re.fullmatch(self.pattern, text) is not None


@dataclass(frozen=True, slots=True)
class Words:
    """A list of different strings, each one of `choices`; without choices, names that stand elsewhere in the file."""

    choices: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    is_all: bool = False  # the list is exactly `choices`


@dataclass(frozen=True, slots=True)
class TypeName:
    """An integer type: int8, uint6, …"""


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with known keys. `exactly_one_of` names keys of which one, and only one, must be there."""

    keys: Mapping[str, Key]
    exactly_one_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """A mapping from names that the file chooses to values of one kind: `least` to `most`, none of `excluded`."""

    values: Kind
    least: int = 0
    most: int | None = None
    pattern: str = NAME
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Either:
    """A value of one of several kinds."""

    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Instances:
    """A mapping from names to engines: each has the keys of its kind, which is usual for its name, or that it says."""

    sections: Mapping[EngineKind, Section]
    usual: Mapping[str, EngineKind]

    def section_of(self, name: str, said: Mapping[str, object]) -> Section | None:
        """The keys of an engine whose entry says these words; None where neither they nor its name tell its kind."""
        template = said.get("template")
        if template is None:
            kind = self.usual.get(name)
        elif template not in TEMPLATE.choices:
            kind = None
        else:
            is_dma, to_dram = template == Template.DMA, said.get("writes") == [DRAM]
            kind = EngineKind(Template(str(template)), direction_of(to_dram) if is_dma else None)
        return None if kind is None else self.sections[kind]


def direction_of(writes_dram: bool) -> Direction:
    """Which way a DMA engine moves words: one of its ends is dram."""
    return Direction.OUT if writes_dram else Direction.IN


Kind = Whole | Word | Words | TypeName | Section | Names | Either | Instances


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it holds, what it means in a line, and whether a machine without `extends` must have it.

    With another value of one that `changes_values`, the same network gives other results.
    """

    kind: Kind
    about: str
    is_needed: bool = True
    changes_values: bool = False


# -- the keys ----------------------------------------------------------------------------------------------------------

SIZE = Whole(1, 256)
"""A number of elements side by side."""

ARRAY_KEYS = {
    "rows": Key(SIZE, "Elements of an activation vector that enter the array each cycle; a multiple of lanes."),
    "cols": Key(SIZE, "Sums that leave the array each cycle; a multiple of lanes."),
}

DRAM_KEYS = {
    "bus_bytes": Key(Whole(1, 128, is_power_of_two=True), "Bytes that the AXI4 bus moves in a cycle: a power of two."),
    "latency_cycles": Key(Whole(1, 10_000), "Cycles from a read's address to its first beat, on an idle memory."),
    "outstanding_beats": Key(Whole(BURST_BEATS, 4096), "Beats of read data that the load engine asks for ahead."),
    "offset_bits": Key(Whole(12, 40), "Width of a byte offset into a DRAM region."),
}

DEPTH = Whole(1, 1 << 24)
"""Words of an on-chip memory."""

MEMORY_KEYS = {
    "element": Key(
        Either((TypeName(), Names(TypeName(), least=1))),
        "What one lane of a word holds: an integer type, or a structure {field: type, …}.",
    ),
    "width": Key(SIZE, "Elements in a word."),
    "depth": Key(DEPTH, "Its size in words, a multiple of banks; or say kib.", is_needed=False),
    "kib": Key(Whole(1, 1 << 16), "Its size in units of 1024 bytes, rounded down to whole words.", is_needed=False),
    "banks": Key(Whole(1, 64), "Contiguous banks, each with one read and one write port."),
}

MEMORY = Section(MEMORY_KEYS, exactly_one_of=("depth", "kib"))

ON_CHIP, OFF_CHIP = Words(excluded=(DRAM,)), Words((DRAM,), is_all=True)
"""What an engine reaches: memories on chip, or exactly [dram]."""

USUAL_DMA = {Direction.IN: Dma(Direction.IN, 4, 16, 2), Direction.OUT: Dma(Direction.OUT, 2, 2, 3)}
"""What DMA engines have under way where the machine's file says nothing else: more makes no network faster."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A template and, of a DMA engine, its direction: what decides which keys an engine has."""

    template: Template
    direction: Direction | None = None

    def __str__(self) -> str:
        end = {None: "", Direction.IN: " that reads dram", Direction.OUT: " that writes dram"}[self.direction]
        return f"{self.template} engine{end}"


def _usual_kinds() -> Mapping[str, EngineKind]:
    text = resources.files(__package__).joinpath("usual_engines.yaml").read_text()
    return {
        name: EngineKind(Template(said["template"]), Direction(said["direction"]) if "direction" in said else None)
        for name, said in yaml.safe_load(text).items()
    }


USUAL_KINDS = _usual_kinds()
"""The kinds of engines whose entries do not say a template, by the engines' names."""

TEMPLATE = Word(tuple(template.value for template in Template))


def _engine_section(kind: EngineKind, own: Mapping[str, Key]) -> Section:
    """The keys of an engine: its template, its queue, those of its kind, and what it reaches."""
    reads = OFF_CHIP if kind.direction is Direction.IN else ON_CHIP
    writes = OFF_CHIP if kind.direction is Direction.OUT else ON_CHIP
    about = f"What it is an instance of; may be left out of engines called {', '.join(USUAL_KINDS)}."
    return Section(
        {
            "template": Key(TEMPLATE, about, is_needed=False),
            "queue": Key(Whole(1, 64), "Instructions that wait in its queue."),
            **own,
            "reads": Key(reads, "Memories that it has read ports to."),
            "writes": Key(writes, "Memories that it has write ports to."),
        }
    )


def _dma_keys(usual: Dma) -> dict[str, Key]:
    bursts, beats = {
        Direction.IN: ("cut into words", "Beats that have come and wait to be cut into words"),
        Direction.OUT: ("sent", "Parts of words, of a beat's size, that are read and not yet sent"),
    }[usual.direction]
    about = {
        "contexts": (Whole(2, 16), "Instructions that are started and not yet completed", usual.contexts),
        "bursts": (Whole(1, 64), f"Bursts that are addressed and not all {bursts}", usual.bursts),
        "beats": (Whole(1, 256), beats, usual.beats),
    }
    return {
        key: Key(kind, f"{text}; {value} if left out.", is_needed=False) for key, (kind, text, value) in about.items()
    }


_RESULTS = Key(
    Whole(1, 64),
    "Results that may wait where the array writes too; enough for one each cycle if left out.",
    is_needed=False,
)


def _keys_of(kind: EngineKind) -> Mapping[str, Key]:
    """The keys that only engines of a kind have."""
    match kind.template:
        case Template.DMA:
            assert kind.direction is not None
            return _dma_keys(USUAL_DMA[kind.direction])
        case Template.SYSTOLIC:
            return {}
        case Template.VECTOR:
            return {"results": _RESULTS}
        case _:
            assert_never(kind.template)


ENGINE_SECTIONS: Mapping[EngineKind, Section] = {
    kind: _engine_section(kind, _keys_of(kind))
    for template in Template
    for direction in (Direction if template is Template.DMA else (None,))
    for kind in (EngineKind(template, direction),)
}
"""The keys of an engine, by its kind."""

LOOP_BITS = Whole(1, 24)
FIELD_BITS = Whole(1, 48)

OPERAND = Word(
    pattern=rf"\s*([^\[\]]*\*\s*)?{NAME}\s*(\[[^\[\]]*\])?\s*",
    examples=("act", "act[c, y, x]", "rows // lanes * act[k, y, x]", "256 * lut[]"),
)

STATEMENT = Word(
    pattern=rf"\s*{NAME}\s*=[^=][\s\S]*",
    examples=(
        "y = a",
        "y = sat(a + b, int8)",
        "c = wrap(sum(dot(a, w)), int32)",
        "c = wrap(sum(dot(a, transpose(w))), int32)",
    ),
)

INSTRUCTION_KEYS = {
    "about": Key(Word(), "What it does, in a line; the manual prints it.", is_needed=False),
    "engine": Key(Word(), "The engine that runs it."),
    "opcode": Key(Whole(0, (1 << OPCODE_BITS) - 1), "Its number; the next free one if left out.", is_needed=False),
    "if": Key(
        Whole(0, 1),
        "A condition such as rows == cols; a machine for which it is 0 does not have the instruction.",
        is_needed=False,
    ),
    "loops": Key(
        Names(LOOP_BITS, least=1), "The loop nest, outermost first: each loop's name and the bits of its trip count."
    ),
    "reduce": Key(Words(), "Loops that sum(…), max_over(…) or min_over(…) goes over.", is_needed=False),
    "from": Key(
        Names(OPERAND),
        "Sources: name: memory, memory[loops that it strides over], or words * memory[loops] for a block of words; "
        "memory[] strides over none.",
    ),
    "to": Key(Names(OPERAND, least=1, most=1), "The destination, written like a source."),
    "imm": Key(Names(TypeName()), "Values that stand in the instruction: name: type.", is_needed=False),
    "flags": Key(Words((ACCUMULATE,)), "accumulate: add to the old value of the destination.", is_needed=False),
    "bits": Key(
        Names(FIELD_BITS, pattern=rf"{NAME}\.{NAME}"),
        "Wider fields than the memories need: a.base: bits, or a.k: bits for the stride of a over loop k.",
        is_needed=False,
    ),
    "do": Key(
        STATEMENT,
        "The statement, evaluated in each lane for every index of the loops: destination = expression.",
    ),
}

PARAMETER = Whole(-(1 << 40), 1 << 40)

TAKEN_PARAMETERS = ("rows", "cols", "lanes")
"""Names that expressions may use without a parameter: the machine's own sizes."""

MACHINE_KEYS = {
    "name": Key(Word(), "Its name; the file's name if left out.", is_needed=False),
    "about": Key(Word(), "What it is, in a line.", is_needed=False),
    "parameters": Key(
        Names(PARAMETER, excluded=TAKEN_PARAMETERS),
        "Numbers by name, for expressions anywhere in the file; each may use those above it.",
        is_needed=False,
    ),
    "rounding": Key(
        Word(tuple(rounding.value for rounding in Rounding)),
        "What round_shift does with a tie: to the even neighbour, up, or away from zero.",
        changes_values=True,
    ),
    "array": Key(Section(ARRAY_KEYS), "The systolic array."),
    "lanes": Key(SIZE, "Elements that the vector engine works on side by side."),
    "wait_bits": Key(Whole(4, 32), "Width of a wait count: an engine runs fewer than 2**wait_bits instructions."),
    "dram": Key(Section(DRAM_KEYS), "The memory behind the AXI4 bus."),
    "fetch_beats": Key(
        Whole(BURST_BEATS, 4096),
        f"Beats of program that fetch holds; {USUAL_FETCH_BEATS} if left out.",
        is_needed=False,
    ),
    "counters": Key(
        Word(tuple(counting.value for counting in Counting)),
        "What the hardware counts of a run: none; few (cycles and bytes); or all, what each engine does as well.",
        is_needed=False,
    ),
    "memories": Key(Names(MEMORY, excluded=(DRAM,)), "On-chip memories by name."),
    "engines": Key(
        Instances(ENGINE_SECTIONS, USUAL_KINDS),
        "Engines by name: which memories each has ports to, and its queue.",
    ),
    "instructions": Key(Names(Section(INSTRUCTION_KEYS)), "Instructions by mnemonic."),
}

EXTENDS = "extends"
EXTENDS_ABOUT = (
    "The shipped machine or .yaml file that this one changes: only what differs is given; null removes a key."
)
