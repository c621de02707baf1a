"""The timing contract: every latency of the machine, and nothing else in the repository states one.

The cycle model computes with these figures and the hardware takes its pipeline depths from them. What happens in
each cycle is told in docs/microarchitecture.md; all figures are clock cycles unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.facts import Circuit
from tilewright.isa.language.narrowing import narrowed
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import WORD_BYTES, InstructionFormat
from tilewright.isa.machine.engine import Engine, Systolic, Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.machine.pipeline import Pipeline

# -- fetch and the bus -------------------------------------------------------------------------------------------------

BURST_BEATS = 16
"""The longest burst, in beats; a burst also ends at every BURST_BOUNDARY_BYTES."""

BURST_BOUNDARY_BYTES = 4096
"""AXI4 (IHI 0022, A3.4.1): a burst must not cross a 4 KiB address boundary."""


def program_unit_bytes(bus_bytes: int) -> int:
    """What dispatch counts a program's beats and instructions in: words, or beats that are shorter."""
    return min(WORD_BYTES, bus_bytes)


def assembly_bytes(longest_bytes: int, bus_bytes: int) -> int:
    """Bytes of program that dispatch has room for: of the longest instruction all but the last unit, then a beat."""
    return longest_bytes - program_unit_bytes(bus_bytes) + bus_bytes


# -- memories ----------------------------------------------------------------------------------------------------------


def memory_read(pipeline: Pipeline) -> int:
    """From the grant of a read to its word: one cycle, and those of registers on its way. Tables have none."""
    return pipeline.request + 1 + pipeline.memory_output + pipeline.select


def first_access(pipeline: Pipeline) -> int:
    """From the start of an instruction to the first cycle in which it may ask for a word, but for weight rows."""
    return 1 + pipeline.check


def next_start(pipeline: Pipeline) -> int:
    """From the cycle in which an instruction does its last to the first one in which its engine may take another."""
    return pipeline.start


# -- DMA engines -------------------------------------------------------------------------------------------------------


def store_read(machine: Machine) -> int:
    """From the grant of a store's read to its bytes in the read buffer."""
    return memory_read(machine.pipeline) + 1


def window_bytes(bus_bytes: int) -> int:
    """Bytes that a DMA engine holds between beats and words: those of one beat on top of those of another."""
    return 2 * bus_bytes


def word_parts(word_bytes: int, bus_bytes: int) -> int:
    """Cycles in which a DMA engine moves a word: one for each part of a beat's size, the last one may be shorter."""
    return -(-word_bytes // bus_bytes)


DMA_STAGES = 6
"""From the start of a load to its first word on chip, without DRAM: address, bus, buffer, window, writer, write."""


def dma_round_trip(machine: Machine) -> int:
    """From the start of a load to its first word on chip, when nothing else is under way on the bus."""
    return machine.dram.latency_cycles + DMA_STAGES


# -- the systolic array ------------------------------------------------------------------------------------------------

MMA_WEIGHT_LEAD = 2
"""The fewest cycles from the read of a tile's first weight row to the issue of its first vector."""


def mma_update(array: Systolic) -> int:
    """Cycles from the read of an accumulator to the first read that sees the new sum."""
    return mma_sum(array) + 1


def mma_tile(array: Systolic) -> int:
    """The fewest cycles of a weight tile: the rows of the next one come, and no sum is read before its update."""
    return max(array.rows, mma_update(array), MMA_WEIGHT_LEAD + 1)


def mma_read(array: Systolic) -> int:
    """From the issue of an activation vector to the read of the accumulators that its sums are added to."""
    return array.rows + array.cols + array.pipeline.mac


def mma_sum(array: Systolic) -> int:
    """From the read of an accumulator to the write of its new sum.

    Where a bank of sums has one port, a vector that adds does not issue so many cycles after one whose sums are in the
    same bank: it would read the bank in the cycle in which that one writes it.
    """
    return memory_read(array.pipeline) + 1


def adding_rate(memory: Memory, sum_cycles: int) -> Fraction:
    """Vectors that issue in a cycle, at best, if each adds to sums in the word behind those of the one before it.

    `sum_cycles`: from the read of sums to the write of new ones. With 2 of them, of banks with one port: with 4,
    interleaved, one a cycle; with 2, two in three cycles; in one bank, one in two.
    """
    if not memory.has_one_port:
        return Fraction(1)
    issued: list[int] = []  # of each vector, the cycle; its bank follows from its number
    banks = memory.banks if memory.is_interleaved else 1
    while len(issued) < ADDING_VECTORS:
        cycle = issued[-1] + 1 if issued else 0
        while cycle - sum_cycles in issued and issued.index(cycle - sum_cycles) % banks == len(issued) % banks:
            cycle += 1
        issued.append(cycle)
    half = ADDING_VECTORS // 2  # the first ones find nothing before them
    return Fraction(ADDING_VECTORS - half, issued[-1] - issued[half - 1])


ADDING_VECTORS = 48
"""After so many, vectors that wait for the banks of their sums have found their rhythm."""


def mma_write(array: Systolic) -> int:
    """From the issue of an activation vector to the write of its sums."""
    return mma_read(array) + mma_sum(array)


# -- the vector engine -------------------------------------------------------------------------------------------------

CIRCUIT_STAGES: Mapping[Circuit, int] = {
    Circuit.WIRES: 0,
    Circuit.STEP: 1,
    Circuit.PRODUCT: 1,
    Circuit.ROUNDED_SHIFT: 2,
    Circuit.ROUNDED_CODE: 4,
    Circuit.TABLE: 2,
}
"""Pipeline stages of what works in each lane of the vector datapath by itself.

An operation's row says which circuit it is; how long that takes is said here, so that a new word needs no latency.
"""

FACTOR_BITS = 17
"""The widest factor of a product that takes one stage. Of a wider one, the product is a sum of two."""

FIRST_PRODUCT = 1
"""The stage at which the first product of a statement begins, or later: after a sum that most statements begin with."""


@cache
def pipeline_nodes(expr: Expr) -> Mapping[Expr, Expr]:
    """Each node of a statement's expression, and the one that the datapath computes for it."""
    return narrowed(expr, FACTOR_BITS)


def in_pipeline(expr: Expr) -> Expr:
    """A statement's expression as the datapath computes it, an operator of hardware for each node that is not wires."""
    return pipeline_nodes(expr)[expr]


WORDS_A_STAGE = 3
"""Words of a block that one stage makes one value of: their values are narrow."""


def operator_stages(node: Expr, pipeline: Pipeline) -> int:
    """Pipeline stages of a node, with those that a machine's file adds.

    Across lanes, one for each level of the tree that halves them: 16 lanes → 4. Over the words of blocks, one for each
    level of a tree that makes one of WORDS_A_STAGE: 3 words → 1, 9 words → 2. A shift by a constant is wires.
    """
    circuit = node.op.facts.circuit
    if circuit is Circuit.WORD_TREE:
        return next(levels for levels in range(1, len(node.args) + 1) if WORDS_A_STAGE**levels >= len(node.args))
    if circuit is Circuit.LANE_TREE:
        return max(1, (node.value - 1).bit_length())
    if circuit is Circuit.STEP and node.op.facts.is_shift and node.args[1].op is Op.CONST:
        return CIRCUIT_STAGES[Circuit.WIRES]
    return CIRCUIT_STAGES[circuit] + _further_stages(circuit, pipeline)


def _further_stages(circuit: Circuit, pipeline: Pipeline) -> int:
    """Those that a machine's file adds to what works in each lane by itself."""
    match circuit:
        case Circuit.TABLE:
            return pipeline.table_output
        case Circuit.PRODUCT:
            return pipeline.multiply
        case Circuit.ROUNDED_SHIFT:
            return pipeline.round_shift
        case _:
            return 0


def is_wires(node: Expr) -> bool:
    """Whether a node takes no hardware, so no stage: bits of its argument, or what is given."""
    return not operator_stages(node, Pipeline())


def vec_rows(format: InstructionFormat) -> int:
    """Words of the weight tile that a vector engine takes one after the other; 1 where nothing is multiplied by one."""
    dot = format.statement.dot
    if dot is None or format.engine.template is not Template.VECTOR:
        return 1
    return format.operand(dot.args[1].name).block


def vec_beats(format: InstructionFormat) -> int:
    """Cycles of a vector engine's iteration: one for each part of a word, and in each, one for each row of a tile."""
    parts = format.engine.vector.parts if format.engine.template is Template.VECTOR else 1
    return vec_rows(format) * parts


def vec_operands(machine: Machine) -> int:
    """From the issue of an iteration's beat (its last read granted) to its operands at the datapath's first stage."""
    return _operands(machine.pipeline)


def _operands(pipeline: Pipeline) -> int:
    return memory_read(pipeline) + 1


@cache
def operator_starts(expr: Expr, pipeline: Pipeline) -> Mapping[Expr, int]:
    """The stage at which each node of a statement in the pipeline takes its arguments: as early as they are there.

    With two exceptions, by which operators of different statements are at the same stages, or as far from the end, and
    can be one unit. No product begins before FIRST_PRODUCT. And behind a product, a stage is left for the sum that
    makes a wide one of two, unless the product goes into a sum or another product: then it is that sum, or none is.
    """
    starts: dict[Expr, int] = {}
    for node in dict.fromkeys(walk(expr)):
        done = (starts[arg] + operator_stages(arg, pipeline) + _stages_between(arg, node) for arg in node.args)
        first = FIRST_PRODUCT if node.op.facts.circuit is Circuit.PRODUCT else 0
        starts[node] = max([first, *done])
    return starts


def _stages_between(arg: Expr, user: Expr) -> int:
    """Stages that are left between a node's value and its user."""
    is_free = user.op in (Op.ADD, Op.SUB, Op.SUM, Op.LANES_SUM, Op.WORDS_SUM) or is_wires(user)
    return int(_is_product(arg) and not is_free and user.op.facts.circuit is not Circuit.PRODUCT)


def _is_product(node: Expr) -> bool:
    """Whether a value is that of a product, perhaps through wires."""
    if node.op.facts.circuit is Circuit.PRODUCT:
        return True
    return bool(node.args) and is_wires(node) and _is_product(node.args[0])


@cache
def statement_stages(expr: Expr, pipeline: Pipeline) -> int:
    """Pipeline stages from a statement's operands to its value."""
    narrow = in_pipeline(expr)
    return operator_starts(narrow, pipeline)[narrow] + operator_stages(narrow, pipeline)


def format_stages(format: InstructionFormat) -> int:
    """Those of an instruction's statement, in its engine."""
    return statement_stages(format.statement.expr, format.engine.pipeline)


def vec_stages(machine: Machine, of: Engine | Template = Template.VECTOR) -> int:
    """Stages of the vector datapath: those of its longest statement; shorter ones leave it earlier.

    `of`: a vector engine; without one, the most that any of the machine has.
    """
    return max((format_stages(format) for format in machine.formats_of(of)), default=0)


def vec_write(format: InstructionFormat) -> int:
    """From the issue of the iteration that finishes a result to the first cycle in which it asks to be written."""
    return _operands(format.engine.pipeline) + format_stages(format)


def can_be_refused(machine: Machine, format: InstructionFormat) -> bool:
    """Whether a result of a vector engine may find its write port taken.

    It may where an array writes, or a vector engine that stands before its own: these come first. And where an array
    reads its weights, if a bank has one port for both.
    """
    own = format.engine
    arrays = machine.of(Template.SYSTOLIC)
    first = [*arrays, *(e for e in machine.of(Template.VECTOR) if e.number < own.number)]
    taken = {other.destination.memory for engine in first for other in machine.formats_of(engine)}
    written = machine.memories.get(format.destination.memory)  # none of a store
    if written is not None and written.has_one_port:
        taken |= {_weights_memory(other) for engine in arrays for other in machine.formats_of(engine)}
    return format.destination.memory in taken


def _weights_memory(format: InstructionFormat) -> str:
    """The memory of the second argument of `dot`, transposed or not."""
    dot = format.statement.dot
    assert dot is not None, "an array multiplies"
    return next(format.operand(node.name).memory for node in walk(dot.args[1]) if node.op is Op.SOURCE)


def vec_results(machine: Machine, engine: Engine) -> int:
    """Results that may be issued and not yet written, of those whose write can be refused.

    As many as the machine's file says, or enough for one each cycle.
    """
    waiting = [format for format in machine.formats_of(engine) if can_be_refused(machine, format)]
    return engine.vector.results or max((vec_write(format) for format in waiting), default=0) + 1


def vec_result_limit(machine: Machine, format: InstructionFormat) -> int:
    """An iteration issues while fewer results than this are outstanding whose write can be refused.

    A result that cannot be refused never waits, so it must not come behind one that may.
    """
    return vec_results(machine, format.engine) if can_be_refused(machine, format) else 1
