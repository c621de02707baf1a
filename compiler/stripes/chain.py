"""Chains of nests: between them lie tensors that nothing else reads, so that they may pass through in stripes of rows.

Example, a block of MobileNetV2: expansion, depthwise convolution, projection. The tensors between the three are large,
those before and behind them small; a chain begins and ends where few words are alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from tilewright.compiler.graph.graph import CHANNEL, ROW
from tilewright.compiler.nest.nest import Access, Nest, NestProgram


@dataclass(frozen=True)
class Chain:
    """Nests behind each other in a program; only those of the chain read what one before the last computes."""

    nests: tuple[Nest, ...]
    program: NestProgram

    @cached_property
    def inner(self) -> frozenset[str]:
        """The tensors between its nests."""
        return frozenset(nest.result.tensor for nest in self.nests[:-1])

    @property
    def rows(self) -> int:
        """The rows of its result."""
        return trip_of(self.nests[-1], row_loop(self.nests[-1]))

    @cached_property
    def runs(self) -> tuple[tuple[Nest, ...], ...]:
        """Its nests, those together that compute each channel from the same channel of the one before.

        Of an expansion, a depthwise convolution and a projection, the first two are one run.
        """
        runs: list[tuple[Nest, ...]] = [self.nests[:1]]
        for before, nest in pairwise(self.nests):
            if self._is_by_channel(before, nest):
                runs[-1] = (*runs[-1], nest)
            else:
                runs.append((nest,))
        return tuple(runs)

    def _is_by_channel(self, before: Nest, nest: Nest) -> bool:
        """Whether a nest alone reads what the one before computes, and each channel of it for the same of its own."""
        tensor = before.result.tensor
        if not (_has_own_channels(before) and _has_own_channels(nest)):
            return False
        if trip_of(before, channel_loop(before)) != trip_of(nest, channel_loop(nest)):
            return False
        reads = [access for access in nest.reads.values() if access.tensor == tensor]
        is_alone = all(reader is nest for reader in self.program.readers[tensor])
        return is_alone and all(is_walk(access, CHANNEL, channel_loop(nest)) for access in reads)


def chains(program: NestProgram, lanes: int) -> Iterator[Chain]:
    """The chains of two nests or more between the places of a program at which fewest words are alive."""
    start = 0
    for stop in _narrow_places(words_alive(program, lanes)):
        if stop - start > 1 and is_chain(program, range(start, stop)):
            yield Chain(program.nests[start:stop], program)
        start = stop


def is_chain(program: NestProgram, positions: range) -> bool:
    """Whether each nest computes a whole tensor row by row, and what is not the last stays among them."""
    outputs = {tensor.name for tensor in program.outputs}
    for position in positions:
        nest = program.nests[position]
        tensor, index = nest.result.tensor, nest.result.index
        if (
            len(program.writers[tensor]) != 1
            or program.buffers[tensor].parts
            or len(index) <= ROW
            or not index[ROW].terms
        ):
            return False
        if not is_walk(nest.result, ROW, row_loop(nest)):
            return False
        if position == positions[-1]:
            return True
        readers = program.positions_of_readers.get(tensor, ())
        if tensor in outputs or not readers or readers[-1] not in positions:
            return False
    return False


def words_alive(program: NestProgram, lanes: int) -> list[int]:
    """Behind each nest, the words of all tensors that are there by then and are read later."""
    words, positions = [0] * len(program.nests), {nest.name: at for at, nest in enumerate(program.nests)}
    for name, buffer in program.buffers.items():
        writers, readers = program.writers.get(name, ()), program.positions_of_readers.get(name, ())
        batches, channels, rows, columns = buffer.shape
        first = positions[writers[0].name] if writers else 0
        for position in range(first, readers[-1] if readers else first):
            words[position] += batches * -(-channels // lanes) * rows * columns
    return words


def row_loop(nest: Nest) -> str:
    """The loop over the rows of a nest's result."""
    return nest.result.index[ROW].terms[0][0]


def channel_loop(nest: Nest) -> str:
    """The loop over the channels of a nest's result."""
    return nest.result.index[CHANNEL].terms[0][0]


def trip_of(nest: Nest, name: str) -> int:
    """The iterations of a loop."""
    return next(loop.trip for loop in nest.loops if loop.name == name)


def is_walk(access: Access, dimension: int, loop: str) -> bool:
    """Whether an access takes the indices of a dimension one by one, from the first on, as a loop goes."""
    index = access.index[dimension]
    return index.terms == ((loop, 1),) and not index.constant


def _narrow_places(words: Sequence[int]) -> Iterator[int]:
    """The numbers of nests behind which fewer words are alive than before, and no fewer behind the next."""
    falls = False
    for position, (here, behind) in enumerate(pairwise(words)):
        if position and here != words[position - 1]:
            falls = here < words[position - 1]
        if falls and here <= behind:
            yield position + 1
            falls = False
    yield len(words)


def _has_own_channels(nest: Nest) -> bool:
    """Whether a nest walks along the channels of its result one by one, in all that it reads by them."""
    if not nest.result.index[CHANNEL].terms:
        return False
    loop = channel_loop(nest)
    indices = [index for access in (nest.result, *nest.reads.values()) for index in access.index]
    return all(index.terms == ((loop, 1),) and not index.constant for index in indices if loop in dict(index.terms))
