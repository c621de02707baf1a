"""Places of networks where a new instruction would do something, and layers for which no statement was found."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codesign.specialise.written import Written
from tilewright.isa.language.operations import Op


@dataclass(frozen=True)
class Use:
    """A place where a candidate would do what several instructions do now, or another one with more words."""

    network: str
    layer: str
    replaces: tuple[str, ...]  # mnemonics of the steps, in order
    written: Written
    of_channels: bool  # each channel has weights of its own
    reduced: tuple[int, ...]  # iterations of each loop that the statement reduces
    to_sums: bool  # its result is a sum of the accumulators' type
    words_saved: int  # that the busiest engine streams no more
    words: int  # that a vector engine streams for the whole nest with it
    lacks: tuple[Op, ...] = ()  # operations, outermost first, where no instruction computes it and the host does
    nodes: tuple[str, ...] = ()  # of the network, that the host does for lack of it


@dataclass(frozen=True)
class Refused:
    """A layer for which no statement was found, and why."""

    network: str
    layer: str
    reason: str
