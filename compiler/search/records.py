"""What a search found, as people read and write it: a record names layers and tensors as the network does that it was
found for. docs/tuning.md explains each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from tilewright.compiler.emission.ahead import EIGHTHS, Ahead, Mix
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.stripes.cut import Stripes
from tilewright.compiler.stripes.stripes import MeasuredStripes
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.isa.errors import short
from tilewright.isa.machine.machine import Machine

FORMAT: Final = 6
"""Changes with the form of a record."""

LINE = 120
"""What is shorter than this is written on one line."""

Count = Annotated[int, Meta(ge=1, le=1 << 40)]


@dataclass(frozen=True)
class Tuning:
    """What a search found for one network on one machine, with the names of its stand-in; `cycles` of the program that
    it gave, where they were counted.
    """

    tiling: TilingOptions
    ahead: Ahead
    cycles: int | None = None


@dataclass(frozen=True)
class SearchSubject:
    """What a record is of: `key` is equal where one search would do for both. `layers` are the nests, each with its
    loops, and `tensors` the buffers, in order.
    """

    key: str
    network: str
    machine: Machine
    effort: int
    layers: tuple[tuple[str, Mapping[str, int]], ...]
    tensors: tuple[str, ...]


class Order(Struct, frozen=True, forbid_unknown_fields=True):
    """An `Ahead`."""

    loads: Annotated[int, Meta(ge=0, le=1 << 40)] | None = None
    eighths: Annotated[int, Meta(ge=1, le=EIGHTHS)] = EIGHTHS
    mix: Mix | None = None
    idle: list[str] = []


class SearchedLayer(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A layer, its loops, and into what tiles it is cut; without `tiles`, as the analytic model finds best."""

    layer: str
    loops: dict[str, Count]
    tiles: dict[str, Count] | None = None
    points_outer: bool = False


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """A `Tuning` as it is kept."""

    key: str
    network: str
    machine: str
    machine_hash: str
    effort: int
    tilewright: str
    cycles: Count | None
    budget_fraction: Annotated[float, Meta(gt=0, le=1)]
    residency: Literal["auto", "none"]
    limits: dict[str, Count]
    arrays: Count | None
    off_chip: list[str]
    order: Order
    tensors: list[str]
    layers: list[SearchedLayer]


class ChainRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """What was found of a chain of layers; without `rows`, it is better as it is. `before` and `after` are cycles."""

    key: str
    machine: str
    tilewright: str
    layers: list[str]
    rows: Count | None
    channels: Count | None
    before: Count | None
    after: Count | None
    is_interleaved: bool = False
    copies_edges: bool = False


class WrongRecord(ValueError):
    """A record that cannot be of its subject; the message names the key and what was expected."""


def printed(tuning: Tuning, subject: SearchSubject) -> Record:
    """A tuning with the names of its subject."""
    tiling, ahead = tuning.tiling, tuning.ahead
    tiles = [tiling.tiles.get(f"n{number}") for number in range(len(subject.layers))]
    return Record(
        key=subject.key,
        network=subject.network,
        machine=subject.machine.name,
        machine_hash=subject.machine.hash,
        effort=subject.effort,
        tilewright=version("tilewright"),
        cycles=tuning.cycles,
        budget_fraction=tiling.budget_fraction,
        residency="none" if tiling.residency == "none" else "auto",
        limits=dict(sorted(tiling.limits.items())),
        arrays=tiling.arrays,
        off_chip=[name for number, name in enumerate(subject.tensors) if f"b{number}" in tiling.off_chip],
        order=Order(ahead.loads, ahead.eighths, ahead.mix, sorted(ahead.idle)),
        tensors=list(subject.tensors),
        layers=[_layer(name, loops, cut) for (name, loops), cut in zip(subject.layers, tiles, strict=True)],
    )


def parsed(record: Record, subject: SearchSubject) -> Tuning:
    """The tuning of a record, whose names may be those of another network. Raises WrongRecord."""
    unknown = sorted(record.limits.keys() - subject.machine.memories.keys())
    if unknown:
        memories = ", ".join(subject.machine.memories)
        raise WrongRecord(f"limits: {short(unknown[0])} is no memory of {subject.machine.name}; expected {memories}")
    _require_engines(record, subject.machine)
    for key, own, wanted in (("tensors", record.tensors, subject.tensors), ("layers", record.layers, subject.layers)):
        if len(own) != len(wanted):
            raise WrongRecord(f"{key}: has {len(own)}; expected the {len(wanted)} of the network")
    numbers = {name: f"b{number}" for number, name in enumerate(record.tensors)}
    for name in record.off_chip:
        if name not in numbers:
            raise WrongRecord(f"off_chip: {short(name)} is no tensor; expected some of those in 'tensors'")
    tiles = {}
    for number, (layer, (_, loops)) in enumerate(zip(record.layers, subject.layers, strict=True)):
        if layer.tiles is not None:
            _require(layer, number, loops)
            tiles[f"n{number}"] = TileSizes({NO_LOOP: 1, **layer.tiles}, layer.points_outer)
    tiling = TilingOptions(
        record.budget_fraction,
        record.residency,
        record.limits,
        frozenset([numbers[name] for name in record.off_chip]),
        tiles,
        record.arrays,
    )
    order = record.order
    return Tuning(tiling, Ahead(order.loads, order.eighths, order.mix, frozenset(order.idle)), record.cycles)


def printed_chain(key: str, found: MeasuredStripes, machine: Machine, layers: Sequence[str]) -> ChainRecord:
    """What was found of a chain of these layers."""
    stripes, made_by = found.stripes, version("tilewright")
    rows, channels = (None, None) if stripes is None else (stripes.rows, stripes.channels)
    is_interleaved = stripes is not None and stripes.is_interleaved
    copies_edges = stripes is not None and stripes.copies_edges
    names, cycles = list(layers), (found.before, found.after)
    return ChainRecord(key, machine.name, made_by, names, rows, channels, *cycles, is_interleaved, copies_edges)


def measured_of(record: ChainRecord, machine: Machine, rows: int) -> MeasuredStripes:
    """What was found of a chain whose result has so many rows. Raises WrongRecord."""
    if record.rows is not None and record.rows > rows:
        raise WrongRecord(f"rows: is {record.rows}; expected 1 to {rows}, or null for a chain that is not cut")
    if record.channels is not None and record.channels % machine.lanes:
        lanes = f"the {machine.lanes} lanes of {machine.name}"
        raise WrongRecord(f"channels: is {record.channels}; expected a multiple of {lanes}, or null for all channels")
    stripes = (
        None
        if record.rows is None
        else Stripes(record.rows, record.channels, record.is_interleaved, record.copies_edges)
    )
    return MeasuredStripes(record.before, record.after, stripes)


def text_of(content: Struct) -> bytes:
    """JSON with the keys in their order; what fits a line is on one, and each layer on one of its own."""
    return (_lines(msgspec.to_builtins(content), "") + "\n").encode()


def _layer(name: str, loops: Mapping[str, int], cut: TileSizes | None) -> SearchedLayer:
    if cut is None:
        return SearchedLayer(name, dict(loops))
    tiles = {loop: cut.sizes.get(loop, trip) for loop, trip in loops.items()}  # some loops are whole in any tile
    return SearchedLayer(name, dict(loops), tiles, cut.points_outer)


def _require_engines(record: Record, machine: Machine) -> None:
    """Raises WrongRecord for engines that the machine does not have."""
    most = 1 + len(machine.twins)
    if record.arrays is not None and record.arrays > most:
        raise WrongRecord(f"arrays: is {record.arrays}; expected 1 to {most}, or null for all")
    unknown = sorted(set(record.order.idle) - machine.engines.keys())
    if unknown:
        expected = f"expected some of {', '.join(machine.engines)}"
        raise WrongRecord(f"order.idle: {short(unknown[0])} is no engine of {machine.name}; {expected}")


def _require(layer: SearchedLayer, number: int, loops: Mapping[str, int]) -> None:
    """Raises WrongRecord for tiles of other loops than a layer has, or larger ones."""
    assert layer.tiles is not None
    wrong = sorted(layer.tiles.keys() ^ loops.keys())
    if wrong:
        has = "no size of" if wrong[0] in loops else "a size of"
        fact = f"layers[{number}].tiles: {short(layer.layer)} has {has} {short(wrong[0])}"
        raise WrongRecord(f"{fact}; expected one of each of {', '.join(loops)}")
    for loop, size in layer.tiles.items():
        if size > loops[loop]:
            fact = f"layers[{number}].tiles: {loop} of {short(layer.layer)} is {size}"
            raise WrongRecord(f"{fact}; expected 1 to {loops[loop]}")


def _lines(value: object, indent: str) -> str:
    line = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    has_parts = isinstance(value, list) and any(isinstance(each, dict) for each in value)
    if not isinstance(value, dict | list) or not has_parts and len(indent) + len(line) < LINE:
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts: Sequence[str] = [f"{_lines(key, inner)}: {_lines(of, inner)}" for key, of in value.items()]
    else:
        parts = [_lines(each, inner) for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"
