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

# -- DMA engines -------------------------------------------------------------------------------------------------------

STORE_READ = 2
"""From the grant of a store's read to its bytes in the read buffer."""


def window_bytes(bus_bytes: int) -> int:
    """Bytes that a DMA engine holds between beats and words: those of one beat on top of those of another."""
    return 2 * bus_bytes


def word_parts(word_bytes: int, bus_bytes: int) -> int:
    """Cycles in which a DMA engine moves a word: one for each part of a beat's size, the last one may be shorter."""
    return -(-word_bytes // bus_bytes)

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


def operator_stages(node: Expr) -> int:
    """Pipeline stages of a node; across lanes, one for each level of the tree that halves them. 16 lanes → 4."""
    circuit = node.op.facts.circuit
    if circuit is Circuit.LANE_TREE:
        return max(1, (node.value - 1).bit_length())
    return CIRCUIT_STAGES[circuit]


VEC_OPERANDS = 2
"""From the issue of an iteration (its last read granted) to its operands at the datapath's first stage."""


def operator_starts(expr: Expr) -> dict[Expr, int]:
    """The stage at which each node of a statement takes its arguments: as early as they are there.

    The products of a statement come one after the other: each begins when the one before it is done, so that the n-th
    products of all instructions meet at the same stages and are one multiplier. `a * b * c` and `a * b + c * d` both
    multiply at stages 0 and 2.
    """
    nodes = tuple(dict.fromkeys(walk(expr)))
    starts = _starts(nodes, {})
    not_before: dict[Expr, int] = {}
    free = 0
    for product in sorted((node for node in nodes if node.op.facts.circuit is Circuit.PRODUCT), key=starts.__getitem__):
        not_before[product] = max(_starts(nodes, not_before)[product], free)
        free = not_before[product] + CIRCUIT_STAGES[Circuit.PRODUCT]
    return _starts(nodes, not_before)


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
