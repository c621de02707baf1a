"""Every key of a machine file: whether it must be there, what it holds, what it means.

The loader checks with these tables, and the JSON Schema for editors is generated from them (`isa.files.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import yaml

from tilewright.isa.key_kinds import (
    NAME,
    SIZE,
    Either,
    EngineKind,
    Instances,
    Key,
    KeyMapping,
    Names,
    TypeName,
    WholeNumber,
    Word,
    Words,
)
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.encoding import ACCUMULATE, OPCODE_BITS
from tilewright.isa.machine.engine import Direction, Template
from tilewright.isa.machine.machine import USUAL_FETCH_BEATS, ClockGating, Counting
from tilewright.isa.machine.memory import DRAM, MOST_MEMORY_PORTS, Interleave
from tilewright.isa.templates.dma import MOST_PORTS
from tilewright.isa.templates.table import facet_of
from tilewright.isa.timing import BURST_BEATS

QUOTED_NUMBER = r"\s*[-+]?[0-9_.]+\s*"
"""A string that is a number in quotes: refused where a number is expected."""

ARRAY_KEYS = {
    "rows": Key(SIZE, "Elements of an activation vector that enter the array each cycle; a multiple of lanes."),
    "cols": Key(SIZE, "Sums that leave the array each cycle; a multiple of lanes."),
}

DRAM_KEYS = {
    "bus_bytes": Key(
        WholeNumber(1, 128, is_power_of_two=True), "Bytes that an AXI4 port moves in a cycle: a power of two."
    ),
    "latency_cycles": Key(WholeNumber(1, 10_000), "Cycles from a read's address to its first beat, on an idle memory."),
    "outstanding_beats": Key(
        WholeNumber(BURST_BEATS, 4096), "Beats of read data that each load engine asks for ahead."
    ),
    "offset_bits": Key(WholeNumber(12, 40), "Width of a byte offset into a DRAM region."),
    "ports": Key(
        WholeNumber(1, MOST_PORTS),
        "AXI4 ports, each a bus of its own for the DMA engines that say its number; 1 if left out. Fetch is on port 0.",
        is_needed=False,
    ),
}

DEPTH = WholeNumber(1, 1 << 24)
"""Words of an on-chip memory."""

MEMORY_KEYS = {
    "element": Key(
        Either((TypeName(), Names(TypeName(), least=1))),
        "What one lane of a word holds: an integer type, or a structure {field: type, …}.",
    ),
    "width": Key(SIZE, "Elements in a word."),
    "depth": Key(DEPTH, "Its size in words, a multiple of banks; or say kib.", is_needed=False),
    "kib": Key(
        WholeNumber(1, 1 << 16), "Its size in units of 1024 bytes, rounded down to whole words.", is_needed=False
    ),
    "banks": Key(WholeNumber(1, 64), "Banks, each with ports of its own."),
    "ports": Key(
        WholeNumber(1, MOST_MEMORY_PORTS),
        "Ports of a bank: 2, one that reads and one that writes, if left out; 1 does either in a cycle.",
        is_needed=False,
    ),
    "interleave": Key(
        Word(tuple(interleave.value for interleave in Interleave)),
        "words: consecutive words lie in consecutive banks, a power of two of them; none, if left out: in one bank.",
        is_needed=False,
    ),
}

MEMORY = KeyMapping(MEMORY_KEYS, exactly_one_of=("depth", "kib"))

MOST_ROUND_SHIFT = 2
"""Registers between the six bits of a shift, at most."""

STAGES = {
    "memory_output": (1, "Registers behind each bank, before a word is chosen of those of several"),
    "select": (1, "Registers in each port that reads banks, behind the choice of one, before its reader's own"),
    "request": (1, "Registers before each bank, for what it reads and writes of what is asked for"),
    "check": (1, "Registers between what walks through an instruction, checks included, and its accesses"),
    "start": (1, "Cycles after an instruction's last access in which its engine takes no other"),
    "table_output": (1, "Registers behind each memory of tables, before a lane computes with the element"),
    "multiply": (2, "Registers of each product in the lanes of vector engines, beside the one that has its value"),
    "round_shift": (MOST_ROUND_SHIFT, "Registers in the shifter of each round_shift in the lanes of vector engines"),
    "mac": (1, "Registers of each product in systolic arrays, before it is added to the sum"),
    "halt": (1, "Registers between run control and each unit: for what halts it, its faults and its counts"),
}
"""The fields of `Pipeline`: how many there are at most, and what they are."""

PIPELINE_KEYS = {
    name: Key(WholeNumber(0, most), f"{about}; 0 if left out.", is_needed=False)
    for name, (most, about) in STAGES.items()
}

ON_CHIP, OFF_CHIP = Words(excluded=(DRAM,)), Words((DRAM,), is_all=True)
"""What an engine reaches: memories on chip, or exactly [dram]."""


def _usual_kinds() -> Mapping[str, EngineKind]:
    text = resources.files(__package__).joinpath("usual_engines.yaml").read_text()
    return {
        name: EngineKind(Template(said["template"]), Direction(said["direction"]) if "direction" in said else None)
        for name, said in yaml.safe_load(text).items()
    }


USUAL_KINDS = _usual_kinds()
"""The kinds of engines whose entries do not say a template, by the engines' names."""

TEMPLATE = Word(tuple(template.value for template in Template))


def _engine_section(kind: EngineKind) -> KeyMapping:
    """The keys of an engine: its template, its queue, those of its kind, and what it reaches."""
    reads = OFF_CHIP if kind.direction is Direction.IN else ON_CHIP
    writes = OFF_CHIP if kind.direction is Direction.OUT else ON_CHIP
    about = f"What it is an instance of; may be left out of engines called {', '.join(USUAL_KINDS)}."
    return KeyMapping(
        {
            "template": Key(TEMPLATE, about, is_needed=False),
            "queue": Key(WholeNumber(1, 64), "Instructions that wait in its queue."),
            **facet_of(kind.template).keys(kind.direction),
            "reads": Key(reads, "Memories that it has read ports to."),
            "writes": Key(writes, "Memories that it has write ports to."),
        }
    )


ENGINE_SECTIONS: Mapping[EngineKind, KeyMapping] = {
    EngineKind(template, direction): _engine_section(EngineKind(template, direction))
    for template in Template
    for direction in facet_of(template).directions
}
"""The keys of an engine, by its kind."""

ENGINES = Instances(ENGINE_SECTIONS, USUAL_KINDS)

LOOP_BITS = WholeNumber(1, 24)
FIELD_BITS = WholeNumber(1, 48)

OPERAND = Word(
    pattern=rf"\s*([^\[\]]*\*\s*)?{NAME}\s*(\[[^\[\]]*\])?\s*(\sas\s+{NAME}\s*)?",
    examples=("act", "act[c, y, x]", "rows // lanes * act[k, y, x]", "256 * lut[]", "rows * wgt[k] as int4"),
)

STATEMENT = Word(
    pattern=rf"\s*{NAME}\s*=[^=][\s\S]*",
    examples=(
        "y = a",
        "y = sat(a + b, int16)",
        "c = wrap(sum(dot(a, w)), acc)",
        "c = wrap(sum(dot(a, transpose(w))), acc)",
    ),
)

INSTRUCTION_KEYS = {
    "about": Key(Word(), "What it does, in a line; the manual prints it.", is_needed=False),
    "engine": Key(
        Either((Word(), Words())),
        "The engine that runs it, or a list: the first one's instruction is called NAME, that of another NAME_ENGINE.",
    ),
    "opcode": Key(
        WholeNumber(0, (1 << OPCODE_BITS) - 1), "Its number; the next free one if left out.", is_needed=False
    ),
    "if": Key(
        WholeNumber(0, 1),
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
        "memory[] strides over none. An array's weights may be read as another type than the memory's: `as int4`.",
    ),
    "to": Key(Names(OPERAND, least=1, most=1), "The destination, written like a source."),
    "imm": Key(
        Names(TypeName()),
        "Values that stand in the instruction: name: type. A memory's name is the type of its elements.",
        is_needed=False,
    ),
    "flags": Key(Words((ACCUMULATE,)), "accumulate: add to the old value of the destination.", is_needed=False),
    "bits": Key(
        Names(FIELD_BITS, pattern=rf"{NAME}\.{NAME}"),
        "Wider fields than the memories need: a.base: bits, or a.k: bits for the stride of a over loop k.",
        is_needed=False,
    ),
    "do": Key(
        STATEMENT,
        "The statement, evaluated in each lane for every index of the loops: destination = expression. "
        "In it, too, a memory's name is the type of its elements: wrap(a + b, acc).",
    ),
}

COPY_KEYS = {
    "of": Key(Word(), "The engine that it is like: of the same template and sizes, with the same instructions."),
    "memories": Key(
        Names(Word()), "Its own memories, by the names of those of the other engine in whose place they are."
    ),
}

PARAMETER = WholeNumber(-(1 << 40), 1 << 40)

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
    "array": Key(
        KeyMapping(ARRAY_KEYS),
        "The sizes of systolic arrays that say none of their own; a machine without arrays needs it not.",
        is_needed=False,
    ),
    "lanes": Key(SIZE, "Elements of a word of tensors, and lanes of a vector engine that says no others."),
    "wait_bits": Key(WholeNumber(4, 32), "Width of a wait count: an engine runs fewer than 2**wait_bits instructions."),
    "dram": Key(KeyMapping(DRAM_KEYS), "The memory behind the AXI4 bus."),
    "fetch_beats": Key(
        WholeNumber(BURST_BEATS, 4096),
        f"Beats of program that fetch holds; {USUAL_FETCH_BEATS} if left out.",
        is_needed=False,
    ),
    "counters": Key(
        Word(tuple(counting.value for counting in Counting)),
        "What the hardware counts of a run: none; few (cycles and bytes); or all, what each engine does as well.",
        is_needed=False,
    ),
    "pipeline": Key(
        KeyMapping(PIPELINE_KEYS),
        "Further stages of the hardware, for a higher clock at some more cycles; none if left out.",
        is_needed=False,
    ),
    "clock_gating": Key(
        Word(tuple(gating.value for gating in ClockGating)),
        "unit: registers of an engine keep what they hold while it has nothing in flight, and prices count gates for "
        "their clock; none, if left out.",
        is_needed=False,
    ),
    "memories": Key(Names(MEMORY, excluded=(DRAM,)), "On-chip memories by name."),
    "engines": Key(
        ENGINES,
        "Engines by name, any number of each template: which memories each has ports to, and its queue.",
    ),
    "instructions": Key(Names(KeyMapping(INSTRUCTION_KEYS)), "Instructions by mnemonic."),
    "copies": Key(
        Names(KeyMapping(COPY_KEYS)),
        "Further engines like others, by name, each with memories of its own; instructions follow: NAME_ENGINE.",
        is_needed=False,
    ),
}

EXTENDS = "extends"
EXTENDS_ABOUT = (
    "The shipped machine or .yaml file that this one changes: only what differs is given; null removes a key."
)
