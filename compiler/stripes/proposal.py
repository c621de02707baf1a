"""Into which stripes a chain may be cut: an estimate, from the words that engines stream and those alive at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import ROW
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.select.transfer import home_of
from tilewright.compiler.session import Session
from tilewright.compiler.stripes.beside import StripePiece, cycles_beside
from tilewright.compiler.stripes.chain import Chain, channel_loop, row_loop, trip_of, words_alive
from tilewright.compiler.stripes.cut import Stripes, copy_of_rows, in_stripes, rows_of_stripes, shares
from tilewright.isa.machine.engine import Engine, Systolic, Vector
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory

LARGE = 2
"""What lies between the nests of a chain is large if it takes more than one part of so many of its memory."""

SHARE = 2
"""One stripe takes at most one part of so many of the memory, so that two can be on chip at once."""

POSSIBLE = 0.05
"""The least share of the cycles of a chain, each nest alone, that engines beside each other must be able to save."""

LOWER = (1, 2, 4)
"""The tallest stripes in so many parts are tried."""

Busy = Counter[Engine]
"""The words that each engine streams."""


@dataclass(frozen=True, slots=True)
class StripeProposal:
    """Stripes of a chain; `least` and `cycles`: of the busiest engine, and of all beside each other. Both estimates."""

    stripes: Stripes
    least: float
    cycles: float


def proposals(chain: Chain, machine: Machine, session: Session | None = None) -> list[StripeProposal]:
    """The stripes that seem worth trying, the best first; none where nothing is to be gained."""
    try:
        costs = _Costs(chain, machine, session or Session())
    except CompileError:
        return []
    most = costs.one_by_one * (1 - POSSIBLE)
    if not costs.is_large or costs.together(Stripes(chain.rows)) > most:
        return []
    tried = [stripes for channels in _groups(chain, machine) for stripes in _stripes(chain, channels, costs)]
    found = [
        StripeProposal(stripes, together, costs.beside(stripes))
        for stripes in tried
        if (together := costs.together(stripes)) <= most
    ]
    return sorted(found, key=lambda each: (each.cycles, each.stripes.rows, each.stripes.channels or 0))


def _groups(chain: Chain, machine: Machine) -> Iterator[int | None]:
    """How many channels may be in a group: all, or as many as the array and the lanes take at once, or more of them."""
    yield None
    settings = [engine.settings for engine in machine.engines.values()]
    widths = [one.cols for one in settings if isinstance(one, Systolic)]
    widths += [one.word for one in settings if isinstance(one, Vector)]
    unit = max(widths)
    channels = max((trip_of(run[-1], channel_loop(run[-1])) for run in chain.runs if len(run) > 1), default=0)
    for times in (1, 2, 4):
        if times * unit < channels:
            yield times * unit


def _stripes(chain: Chain, channels: int | None, costs: _Costs) -> Iterator[Stripes]:
    """The tallest stripes of which two fit, and lower ones: in turn and beside the next, with edges copied and not."""
    rows = chain.rows
    while rows > 1 and not costs.has_room(Stripes(rows, channels)):
        rows = -(-rows // 2)
    for height in dict.fromkeys(-(-rows // part) for part in LOWER):
        if channels is not None or height < chain.rows:
            yield Stripes(height, channels)
        beside = Stripes(height, channels, is_interleaved=True)
        if height < chain.rows and costs.has_room(beside):
            yield beside
        for is_interleaved in (False, True):
            once = Stripes(height, channels, is_interleaved, copies_edges=True)
            if costs.can_copy and costs.computes_twice(once) and costs.has_room(once):
                yield once


class _Costs:
    """What the nests of a chain stream. Raises CompileError for a chain that the machine cannot compute."""

    def __init__(self, chain: Chain, machine: Machine, session: Session) -> None:
        self._chain = chain
        self._machine = machine
        program = chain.program
        selector = Selector(machine, program, session)
        names = {home_of(selector.transfers, program, tensor) for tensor in chain.inner}
        self.memory: Memory = machine.memories[min(names)]
        self._words = {nest.name: Busy(selector.cover(nest).words) for nest in chain.nests}
        self._copied = {nest.name: self._words_copied(nest, selector) for nest in chain.nests}
        self._moved = self._through_dram(selector)
        self.is_large = max(self._alive(chain.program)) > self.memory.depth // LARGE

    @property
    def one_by_one(self) -> float:
        """The cycles of the nests one after the other, what lies between them in DRAM."""
        return sum(max((self._words[nest.name] + self._moved[nest.name]).values()) for nest in self._chain.nests)

    @property
    def can_copy(self) -> bool:
        """Whether the machine copies rows of all tensors between the nests."""
        return all(self._copied[nest.name] for nest in self._chain.nests[:-1])

    def computes_twice(self, stripes: Stripes) -> bool:
        """Whether stripes need rows that the ones before have."""
        return any(own.edge for rows in rows_of_stripes(self._chain, stripes) for own in rows.values())

    def together(self, stripes: Stripes) -> float:
        """The cycles of the busiest engine, with what is computed twice, or copied."""
        busy: dict[Engine, float] = {}
        for rows in rows_of_stripes(self._chain, stripes):
            for nest in self._chain.nests:
                for engine, words in self._busy(nest, len(rows[nest.name].own), len(rows[nest.name].edge)).items():
                    busy[engine] = busy.get(engine, 0) + words
        return max(busy.values())

    def _busy(self, nest: Nest, computed: float, copied: float) -> Mapping[Engine, float]:
        """What engines stream for so many rows of a nest that are computed, and so many that are copied."""
        row, busy = 1 / trip_of(nest, row_loop(nest)), dict[Engine, float]()
        for rows, of in ((computed, self._words[nest.name]), (copied, self._copied[nest.name])):
            for engine, words in of.items() if rows else ():
                busy[engine] = busy.get(engine, 0) + words * rows * row
        return busy

    def _words_copied(self, nest: Nest, selector: Selector) -> Busy:
        """What engines stream for a copy of a nest's result; nothing if no instruction copies it."""
        buffer = self._chain.program.buffers[nest.result.tensor]
        try:
            return Busy(selector.cover(copy_of_rows(nest, buffer, buffer.shape[ROW])).words)
        except CompileError:
            return Busy()

    def beside(self, stripes: Stripes) -> float:
        """The cycles of all pieces, engines at work on different ones."""
        made: dict[tuple[int, str], list[int]] = {}  # by stripe and tensor, the pieces that others read
        pieces: list[StripePiece] = []
        for number, share in enumerate(shares(self._chain, stripes)):
            stripe, rows = share.stripe, trip_of(share.nest, row_loop(share.nest))
            words = self._busy(share.nest, share.part * rows, share.part_copied * rows)
            reads = [at for access in share.nest.reads.values() for at in made.get((stripe, access.tensor), ())]
            pieces.append(StripePiece(words, reads))
            result = made.setdefault((stripe, share.nest.result.tensor), [])
            if not share.is_last:
                result.clear()  # the rest of its run reads this group alone
            result.append(number)
        return cycles_beside(pieces)

    def has_room(self, stripes: Stripes) -> bool:
        """Whether one stripe, or one beside the end of another, leaves room for as much again."""
        return max(self._alive(in_stripes(self._chain, stripes))) <= self.memory.depth // SHARE

    def _alive(self, program: NestProgram) -> list[int]:
        """The words between the nests of the chain that are alive behind each nest; not those before and behind it."""
        outside = {tensor.name for tensor in (*program.inputs, *program.outputs)}
        inner = {name: buffer for name, buffer in program.buffers.items() if name not in outside}
        return words_alive(replace(program, buffers=inner), self.memory.width)

    def _through_dram(self, selector: Selector) -> Mapping[str, Busy]:
        """For each nest of the chain, the beats of what it stores of, and loads from, the tensors between them."""
        moved = {nest.name: Busy() for nest in self._chain.nests}
        name, transfers = self.memory.name, selector.transfers
        store, load = transfers.store(name).engine, transfers.load(name).engine
        for nest in self._chain.nests:
            if nest.result.tensor in self._chain.inner:
                beats = self._beats(nest.result.tensor)
                moved[nest.name][store] += beats
                for reader in {reader.name for reader in self._chain.program.readers[nest.result.tensor]}:
                    moved[reader][load] += beats
        return moved

    def _beats(self, tensor: str) -> int:
        batches, channels, rows, columns = self._chain.program.buffers[tensor].shape
        words = batches * -(-channels // self.memory.width) * rows * columns
        return -(-words * self.memory.word_bytes // self._machine.dram.bus_bytes)
