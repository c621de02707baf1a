"""How many images a run takes: as many as are wanted, if that takes no more cycles than one image after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.batches.place import ImageAxis
from tilewright.compiler.levels import Form
from tilewright.compiler.options import Options
from tilewright.compiler.partition.source import Source
from tilewright.compiler.running import Keep
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.isa.program.partitioned import HostSegment, Partitioned, Segment
from tilewright.isa.program.program import Program

ABOUT = "batch"
"""What the remark of a choice is about."""

Results = tuple[tuple[str, Form | Options], ...]
"""What passes made, each with the pass's name."""


@dataclass(frozen=True)
class BatchCandidate:
    """A network for some images in each run, where these lie in its tensors, and what its passes made."""

    images: int
    network: Program | Partitioned
    places: Mapping[str, ImageAxis]
    results: Results = ()

    @property
    def cycles(self) -> int:
        """Those of all its programs."""
        return sum(
            map(exact_cycles, self.network.programs if isinstance(self.network, Partitioned) else [self.network])
        )

    @property
    def each(self) -> float:
        """Cycles for each image."""
        return self.cycles / self.images


Make = Callable[[Source, Keep | None], Program | Partitioned]
"""Compiles a model; what its passes make is kept."""


def for_batch(
    wanted: int, source_of: Callable[[int], Source], make: Make, kept: Keep | None
) -> tuple[Program | Partitioned, str]:
    """What `choose` finds, and its remark. What passes made of the others is not handed on."""

    def candidate(images: int) -> BatchCandidate:
        results: list[tuple[str, Form | Options]] = []
        source = source_of(images)
        network = make(source, None if kept is None else lambda name, value: results.append((name, value)))
        return BatchCandidate(images, network, source.places, tuple(results))

    chosen, remark = choose(wanted, candidate)
    if kept is not None:
        for name, value in chosen.results:
            kept(name, value)
    return replace(chosen.network, images=chosen.images), remark


def choose(wanted: int, make: Callable[[int], BatchCandidate]) -> tuple[BatchCandidate, str]:
    """The network for the wanted number of images, or half as many, and so on, and a remark on why.

    The first that takes no more cycles for each image than a run of one, and whose host parts are those of one image,
    in which floats round as they do alone. Raises CompileError if there is no network for one image.
    """
    one, images, refused = make(1), wanted, ""
    while images > 1:
        try:
            tried = _by_image(make(images), one)
        except CompileError as error:
            fault = str(error)
        else:
            if tried.cycles <= images * one.cycles:
                return tried, f"{_took(tried)}; one alone takes {one.cycles:,}{refused}"
            fault = f"they would take {tried.each:,.0f} each"
        refused = refused or f"; with {images} in a run, {fault}"
        images //= 2
    return one, f"{_took(one)}{refused}"


def _took(of: BatchCandidate) -> str:
    """Latency, and throughput beside it."""
    each = f", {of.each:,.0f} for each image" if of.images > 1 else ""
    return f"{of.images} image{'s' * (of.images != 1)} in each run of {of.cycles:,} cycles{each}"


def _by_image(tried: BatchCandidate, one: BatchCandidate) -> BatchCandidate:
    """With the host's parts of one image. Raises CompileError where the host would do something else for one."""
    if not isinstance(tried.network, Partitioned) and not isinstance(one.network, Partitioned):
        return tried
    many, single = (each.network.segments if isinstance(each.network, Partitioned) else () for each in (tried, one))
    if len(many) != len(single):
        raise CompileError(fact="the host would compute other nodes")
    segments = tuple(_of_one(*each, tried.places) for each in zip(many, single, strict=True))
    assert isinstance(tried.network, Partitioned)
    return replace(tried, network=replace(tried.network, segments=segments))


def _of_one(many: Segment, single: Segment, places: Mapping[str, ImageAxis]) -> Segment:
    ends = (many.inputs, many.outputs)
    if ends != (single.inputs, single.outputs) or isinstance(many, HostSegment) != isinstance(single, HostSegment):
        raise CompileError(fact="the host would compute other nodes")
    if not isinstance(many, HostSegment) or not isinstance(single, HostSegment):
        return many
    if [node.name for node in many.nodes] != [node.name for node in single.nodes]:
        raise CompileError(fact="the host would compute other nodes")
    for name in (*many.inputs, *many.outputs):
        place = places.get(name)
        if place is None or place.axis or place.outer != 1:
            raise CompileError(fact=f"{name!r} would not have image after image for the host")
    return replace(many, onnx=single.onnx)
