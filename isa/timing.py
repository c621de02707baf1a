"""The timing contract: every latency of the machine, and nothing else in the repository states one.

The cycle model computes with these figures and the hardware takes its pipeline depths from them. What happens in
each cycle is told in docs/microarchitecture.md; all figures are clock cycles unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.facts import Circuit
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

# -- fetch and the bus -------------------------------------------------------------------------------------------------

BURST_BEATS = 16
"""The longest burst, in beats; a burst also ends at every BURST_BOUNDARY_BYTES."""

BURST_BOUNDARY_BYTES = 4096
"""AXI4 (IHI 0022, A3.4.1): a burst must not cross a 4 KiB address boundary."""

FETCH_BUFFER_BEATS = 64
"""Beats of program that fetch holds or has asked for."""

# -- DMA engines -------------------------------------------------------------------------------------------------------

LOAD_CONTEXTS = 4
"""Load instructions that may be started and not yet completed."""

BURST_QUEUE = 16
"""Bursts of the store engine that are addressed and whose beats are not all sent; of load, bursts not all packed."""

STORE_WORDS = 4
"""Words of the store engine that are read or being read and not yet turned into beats."""

STORE_READ = 2
"""From the grant of a store's read to its word in the word buffer."""

STORE_CONTEXTS = 4
"""Store instructions that may be started and not yet completed."""

# -- the systolic array ------------------------------------------------------------------------------------------------

MMA_WEIGHT_LEAD = 2
"""The fewest cycles from the read of a tile's first weight row to the issue of its first vector."""

MMA_UPDATE = 3
"""Cycles from the read of an accumulator to the first read that sees the new sum."""


def mma_read(machine: Machine) -> int:
    """From the issue of an activation vector to the read of the accumulators that its sums are added to."""
    return machine.rows + machine.cols


def mma_write(machine: Machine) -> int:
    """From the issue of an activation vector to the write of its sums."""
    return mma_read(machine) + 2


# -- the vector engine -------------------------------------------------------------------------------------------------

CIRCUIT_STAGES: Mapping[Circuit, int] = {
    Circuit.WIRES: 0,
    Circuit.STEP: 1,
    Circuit.PRODUCT: 2,
    Circuit.ROUNDED_SHIFT: 2,
    Circuit.TABLE: 2,
}
"""Pipeline stages of what works in each lane of the vector datapath by itself.

An operation's row says which circuit it is; how long that takes is said here, so that a new word needs no latency.
"""


WORDS_A_STAGE = 3
"""Words of a block that one stage makes one value of: their values are narrow."""


def operator_stages(node: Expr) -> int:
    """Pipeline stages of a node.

    Across lanes, one for each level of the tree that halves them: 16 lanes → 4. Over the words of blocks, one for each
    level of a tree that makes one of WORDS_A_STAGE: 3 words → 1, 9 words → 2.
    """
    circuit = node.op.facts.circuit
    if circuit is Circuit.WORD_TREE:
        return next(levels for levels in range(1, len(node.args) + 1) if WORDS_A_STAGE**levels >= len(node.args))
    if circuit is Circuit.LANE_TREE:
        return max(1, (node.value - 1).bit_length())
    return CIRCUIT_STAGES[circuit]


VEC_OPERANDS = 2
"""From the issue of an iteration (its last read granted) to its operands at the datapath's first stage."""


def operator_starts(expr: Expr) -> dict[Expr, int]:
    """The stage at which each node of a statement takes its arguments: as early as they are there.

    The products of a statement come one after the other: each begins when the one before it is done, so that the n-th
    products of all instructions meet at the same stages and are one multiplier. `a * b * c` and `a * b + c * d` both
    multiply at stages 0 and 2. Only the products of a block's words run side by side.
    """
    nodes = tuple(dict.fromkeys(walk(expr)))
    starts = _starts(nodes, {})
    not_before: dict[Expr, int] = {}
    free = 0
    for together in sorted(_products(nodes), key=lambda products: starts[products[0]]):
        start = max(_starts(nodes, not_before)[together[0]], free)
        not_before.update(dict.fromkeys(together, start))
        free = start + CIRCUIT_STAGES[Circuit.PRODUCT]
    return _starts(nodes, not_before)


def _products(nodes: tuple[Expr, ...]) -> list[tuple[Expr, ...]]:
    """The products among nodes: those that are the same but for the word of a block together, others alone."""
    trees = [node for node in nodes if node.op.facts.circuit is Circuit.WORD_TREE]
    of_words = [tuple(dict.fromkeys(nth)) for tree in trees for nth in zip(*map(walk, tree.args), strict=True)]
    inside = {node for nth in of_words for node in nth}
    groups = [*of_words, *((node,) for node in nodes if node not in inside)]
    return [group for group in dict.fromkeys(groups) if group[0].op.facts.circuit is Circuit.PRODUCT]


def _starts(nodes: tuple[Expr, ...], not_before: Mapping[Expr, int]) -> dict[Expr, int]:
    """Starts of nodes, which come with arguments before their users."""
    starts: dict[Expr, int] = {}
    for node in nodes:
        done = (starts[arg] + operator_stages(arg) for arg in node.args)
        starts[node] = max([not_before.get(node, 0), *done])
    return starts


@cache
def statement_stages(expr: Expr) -> int:
    """Pipeline stages from a statement's operands to its value."""
    return operator_starts(expr)[expr] + operator_stages(expr)


def vec_stages(machine: Machine) -> int:
    """Stages of the vector datapath: those of the machine's longest vector statement; shorter ones leave it earlier."""
    return max((statement_stages(f.statement.expr) for f in machine.formats_of("vec")), default=0)


def vec_write(format: InstructionFormat) -> int:
    """From the issue of the iteration that finishes a result to the first cycle in which it asks to be written."""
    return VEC_OPERANDS + statement_stages(format.statement.expr)


def vec_results(machine: Machine) -> int:
    """Results that may be issued and not yet written: just enough for one each cycle when no write is refused."""
    return VEC_OPERANDS + vec_stages(machine) + 2


# -- bursts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Burst:
    """One AXI burst of a DMA engine: `bytes` from byte address `address`, carried by `beats` bus beats."""

    address: int
    bytes: int
    beats: int


def first_burst(address: int, remaining_bytes: int, bus_bytes: int) -> Burst:
    """The next burst of a contiguous run that has `remaining_bytes` left from byte `address` on.

    Example, 16-byte bus: 40 bytes from 0x1FF8 → 8 bytes in 1 beat (the boundary at 0x2000), then 32 bytes in 2.
    """
    to_boundary = BURST_BOUNDARY_BYTES - address % BURST_BOUNDARY_BYTES
    to_longest = BURST_BEATS * bus_bytes - address % bus_bytes
    size = min(remaining_bytes, to_boundary, to_longest)
    return Burst(address, size, -(-(address % bus_bytes + size) // bus_bytes))
