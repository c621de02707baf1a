"""How many images a run takes: as many as are wanted, if that takes no more cycles than one image after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import Form
from tilewright.compiler.options import Options
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.program.partitioned import Partitioned
from tilewright.isa.program.program import Program

ABOUT = "batch"
"""What the remark of a choice is about."""


@dataclass(frozen=True)
class Candidate:
    """A network for some images in each run, and what its passes made."""

    images: int
    network: Program | Partitioned
    results: list[tuple[str, Form | Options]] = field(default_factory=list)

    @property
    def cycles(self) -> int:
        """Those of all its programs."""
        return sum(map(exact_cycles, programs_of(self.network)))

    @property
    def each(self) -> float:
        """Cycles for each image."""
        return self.cycles / self.images

    @property
    def on_host(self) -> frozenset[str]:
        """The nodes that the host computes, which may round otherwise than the machine."""
        nodes = self.network.host_nodes if isinstance(self.network, Partitioned) else ()
        return frozenset(node.name for node in nodes)


def programs_of(network: Program | Partitioned) -> tuple[Program, ...]:
    """The programs of a network, in order."""
    return network.programs if isinstance(network, Partitioned) else (network,)


def choose(wanted: int, make: Callable[[int], Candidate]) -> tuple[Candidate, str]:
    """The network for the wanted number of images, or half as many, and so on, and a remark on why.

    The first that takes no more cycles for each image than a run of one image, and leaves the same nodes to the host.
    Raises CompileError if there is no network for one image.
    """
    one, images, refused = make(1), wanted, ""
    while images > 1:
        fault = ""
        try:
            tried = make(images)
        except CompileError as error:
            fault = f"{images} in one run do not compile: {error}"
        else:
            fault = _fault(tried, one)
            if not fault:
                return tried, f"{_took(tried)}; one alone takes {one.cycles:,}{refused}"
        refused = refused or f"; {fault}"
        images //= 2
    return one, f"{_took(one)}{refused}"


def _took(of: Candidate) -> str:
    """Latency, and throughput beside it."""
    each = f", {of.each:,.0f} for each image" if of.images > 1 else ""
    return f"{of.images} image{'s' * (of.images != 1)} in each run of {of.cycles:,} cycles{each}"


def _fault(tried: Candidate, one: Candidate) -> str:
    """Why images are better taken one after another; empty where they are not."""
    if tried.on_host != one.on_host:
        return f"with {tried.images} in one run, other nodes would be on the host"
    if tried.cycles > tried.images * one.cycles:
        return f"{tried.images} in one run would take {tried.each:,.0f} each"
    return ""
