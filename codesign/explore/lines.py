"""The lines of a study's file: what each kind says, and how one from outside is read.

A line is known by its kind and its key. Machines are known by `machine_key`, networks by the hash of their bytes, and
what was computed by the version of the program that did it, so that no result of older code passes for one of newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.points.evaluate import Failure, NetworkFigures
from tilewright.codesign.points.priced import MachineFigures
from tilewright.isa.files.yaml_tree import Scalar
from tilewright.isa.outside import LARGEST, OutsideError, from_json, from_plain, require_amounts

Line = Mapping[str, Any]
Key = tuple[Any, ...]

KEYS = {
    "space": ("version",),
    "machine": ("label",),
    "price": ("machine", "clock", "version"),
    "point": ("machine", "network", "effort", "version"),
    "dropped": ("label", "version"),
    "search": ("name", "shard", "version"),
    "verified": ("machine", "degree", "networks", "effort", "version"),
}
"""The kinds of lines, and what each is known by."""

Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
Weight = Annotated[float, Meta(gt=0, le=LARGEST)]
Cycles = Annotated[float, Meta(ge=0, le=LARGEST)]


def _kind_of(class_name: str) -> str:
    """What a line says that it is. PriceLine → price"""
    return class_name.removesuffix("Line").lower()


class _Kind(Struct, tag_field="kind", tag=_kind_of, omit_defaults=True, frozen=True):
    """The base of all kinds; the kind is the class's name."""


class _AxisField(Struct, frozen=True):
    name: str
    is_overlay: bool


class _Network(Struct, frozen=True):
    name: str
    hash: str
    weight: Weight


class _Reason(Struct, frozen=True):
    """Why a machine has no price."""

    stage: str
    reason: str


class SpaceLine(_Kind, frozen=True):
    version: str
    base: str
    axes: list[_AxisField]
    base_values: list[Scalar]
    networks: Annotated[list[_Network], Meta(min_length=1)]
    objectives: Annotated[list[str], Meta(min_length=1)]
    constraints: list[tuple[str, Natural, Natural]]  # text, line, column
    constants: dict[str, Scalar]
    effort: Natural
    clock: bool
    beside: str | None = None

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.base_values):
            raise ValueError("axes and base_values differ in length")
        if unknown := set(self.objectives) - FIGURES.keys():
            raise ValueError(f"no figure {min(unknown)!r}")
        names = [network.name for network in self.networks]
        if len(set(names)) < len(names):
            raise ValueError("two networks have one name")
        _require_moderate((*self.base_values, *self.constants.values()))


class MachineLine(_Kind, frozen=True):
    label: str
    values: list[Scalar]
    machine: str = ""
    failure: _Reason | None = None

    def __post_init__(self) -> None:
        _require_moderate(self.values)
        if not self.machine and self.failure is None:
            raise ValueError("a machine has its key, or the failure why there is none")


class PriceLine(_Kind, frozen=True):
    machine: str
    clock: bool
    version: str
    figures: MachineFigures | None = None
    failure: _Reason | None = None

    def __post_init__(self) -> None:
        if (self.figures is None) == (self.failure is None):
            raise ValueError("a price has either figures or a failure")
        if self.figures is not None:
            require_amounts(msgspec.to_builtins(self.figures), "figures")
            if self.figures.clock_ns == 0:
                raise ValueError("figures.clock_ns is 0")


class PointLine(_Kind, frozen=True):
    machine: str
    network: str
    effort: Natural
    version: str
    outcome: dict[str, Any]  # `NetworkFigures` or `Failure`

    def __post_init__(self) -> None:
        if "stage" in self.outcome:
            from_plain(self.outcome, Failure)
        else:
            from_plain(self.outcome, NetworkFigures)
            require_amounts(self.outcome, "outcome")


class DroppedLine(_Kind, frozen=True):
    label: str
    version: str
    machine: str
    by: str
    least_cycles: Cycles


class SearchLine(_Kind, frozen=True):
    name: str
    shard: str
    version: str
    labels: list[str]


class Verified(_Kind, frozen=True):
    machine: str
    degree: str
    networks: str
    effort: Natural
    version: str
    outcome: Literal["holds", "fails"]  # what was not done is not kept
    text: str


_LINE = msgspec.json.Decoder(SpaceLine | MachineLine | PriceLine | PointLine | DroppedLine | SearchLine | Verified)


def read_line(text: bytes) -> Line:
    """A line as its schema has it, with nothing else in it. Raises OutsideError."""
    line: Line = msgspec.to_builtins(from_json(_LINE, text))
    if line["kind"] == "point":
        kind: type[Failure] | type[NetworkFigures] = Failure if "stage" in line["outcome"] else NetworkFigures
        return {**line, "outcome": msgspec.to_builtins(from_plain(line["outcome"], kind))}
    return line


def print_line(line: Line) -> bytes:
    """A line as the file has it, its keys in order. Raises OutsideError for one that could not be read again."""
    try:
        text = msgspec.json.encode(line)
    except (TypeError, OverflowError, RecursionError) as error:
        raise OutsideError(str(error)) from error
    return msgspec.json.encode(read_line(text)) + b"\n"


def key_of(line: Line) -> Key:
    """What a line is known by."""
    kind = line["kind"]
    return (kind, *(line[name] for name in KEYS[kind]))


def _require_moderate(values: Any) -> None:
    for value in values:
        if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
            raise ValueError("a number is too large")
