"""A space of machines: what may differ between them, which are allowed, and what they are measured by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.expression import Expression
from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.points.machine import machine_key
from tilewright.codesign.points.network import Network, read_network
from tilewright.codesign.price.sizes import SIZE
from tilewright.isa.files.laid_over import laid_over
from tilewright.isa.files.loader import build_machine
from tilewright.isa.files.machine_file import MachineFileError
from tilewright.isa.files.yaml_tree import Scalar, Tree, Where
from tilewright.isa.machine.machine import Machine

MOST_POINTS = 1_000_000
"""Points that are looked at one by one; of a space with more, some are."""

MOST_REFUSED = 100_000
"""Points in a row that the constraints may exclude before nobody looks for more."""

SPECIALISED = "specialised"
"""The axis of instructions that are found for the base machine: on (1), or off (0)."""

TARGET = "target_mhz"
"""The axis of clocks that points aim at: how they are mapped, and their memories' macros; no key of the machine."""

Point = tuple[Scalar, ...]
"""A value for each axis of a space, in its order."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What may differ: a key of the machine with its values, or an overlay that is on (1) or off (0).

    Of an engine, the values say whether there is one: true or false. An overlay of instructions that are to be found
    is the base machine until then, and `share` is how much of its logic they may add.
    """

    name: str
    values: tuple[Scalar, ...]
    overlay: Tree | None = None
    share: float | None = None

    def text(self, value: Scalar) -> str:
        """The value as labels have it: `array.rows=8`, `+overlay`, or nothing for an overlay that is off."""
        if self.overlay is None:
            return f"{self.name}={as_written(value)}"
        return f"+{self.name}" if value else ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """An expression that a point must meet, and where in the file it stands."""

    expression: Expression
    where: Where

    @property
    def figures(self) -> frozenset[str]:
        """Those that it uses: with none, it is known of a point before any work."""
        return self.expression.names & FIGURES.keys()

    @property
    def needs_networks(self) -> bool:
        return any(FIGURES[name].needs_networks for name in self.figures)

    def figures_text(self, names: Mapping[str, object]) -> str:
        """Its figures of a point: `logic_mm2 1.17`."""
        return ", ".join(f"{name} {_number(names.get(name))}" for name in sorted(self.figures))

    def is_met(self, names: Mapping[str, object]) -> bool:
        """Whether a point meets it, by its keys and figures; one without a figure that it asks for does not."""
        if any(names.get(name) is None for name in self.figures):
            return False
        try:
            return bool(self.expression.value(names))
        except StudyError as error:
            raise StudyError(f"{self.where}: {error}") from error


@dataclass(frozen=True, slots=True)
class WeightedNetwork:
    """A network of a space: its file, how often it runs beside the others, and how many images a run may take."""

    name: str
    path: Path
    weight: float = 1.0
    batch: int | None = None

    def read(self) -> Network:
        """Raises CompileError for a file that cannot be read."""
        return replace(read_network(self.path, name=self.name), batch=self.batch)


@dataclass(frozen=True)
class Space:
    """What a space's file says, checked. `constants` are keys of the base machine that constraints use."""

    base: str
    tree: Tree = field(repr=False)  # of the base machine
    axes: tuple[Axis, ...]
    constraints: tuple[Constraint, ...]
    networks: tuple[WeightedNetwork, ...]
    objectives: tuple[str, ...]
    effort: int
    text: str = field(repr=False)  # of the file
    constants: Mapping[str, Scalar] = field(default_factory=dict)
    beside: Path = Path()  # where the files are that it names

    @property
    def size(self) -> int:
        """Points, whether allowed or not."""
        size = 1
        for axis in self.axes:
            size *= len(axis.values)
        return size

    @property
    def size_text(self) -> str:
        return f"{self.size:,}" if self.size < 10**15 else f"some 10^{math.log10(self.size):.0f}"

    @property
    def needs_clock(self) -> bool:
        names = {name for constraint in self.constraints for name in constraint.figures} | set(self.objectives)
        return any(FIGURES[name].needs_clock for name in names)

    def target_mhz(self, point: Point) -> int | None:
        """The clock that a point aims at; None in a space without targets."""
        found = (value for axis, value in zip(self.axes, point, strict=True) if axis.name == TARGET)
        return cast("int | None", next(found, None))

    def machine_key(self, point: Point, machine: Machine) -> str:
        """What results of a point's machine are kept by: of one that aims at a clock, also that."""
        target = self.target_mhz(point)
        return machine_key(machine) + (f"@{target}" if target else "")

    def names(self, point: Point) -> dict[str, Scalar]:
        """What constraints may use of a point before any work: its keys and overlays, and keys of the base."""
        return {**self.constants, **{axis.name: value for axis, value in zip(self.axes, point, strict=True)}}

    def is_allowed(self, point: Point) -> bool:
        """Whether a point meets the constraints that use keys alone."""
        names = self.names(point)
        return all(constraint.is_met(names) for constraint in self._of_keys)

    @cached_property
    def _of_keys(self) -> tuple[Constraint, ...]:
        return tuple(constraint for constraint in self.constraints if not constraint.figures)

    def points(self) -> Iterator[Point]:
        """All allowed points; what changes the structure of the hardware changes slowest, so that prices are shared.

        Raises StudyError in a large space where none comes for long.
        """
        order = sorted(range(len(self.axes)), key=lambda at: _is_size(self.axes[at]))
        back = sorted(range(len(order)), key=order.__getitem__)
        refused = 0
        for values in itertools.product(*(self.axes[at].values for at in order)):
            point = tuple(values[at] for at in back)
            refused += 1
            if self.is_allowed(point):
                refused = 0
                yield point
            elif refused > MOST_REFUSED and self.size > MOST_POINTS:
                raise self.too_rare(MOST_REFUSED)

    def too_rare(self, tries: int) -> StudyError:
        """The error that so many points were tried and none was allowed."""
        return StudyError(
            f"the space has {self.size_text} points, and of {tries:,} that were tried none meets the constraints; "
            "leave out values that none of them allows"
        )

    def label(self, point: Point) -> str:
        """A point in words: `array.rows=8 lanes=8 +softmax`; `base` if it has nothing to say."""
        texts = (axis.text(value) for axis, value in zip(self.axes, point, strict=True))
        return " ".join(text for text in texts if text) or "base"

    def machine(self, point: Point) -> Machine:
        """The machine of a point. Raises MachineFileError for one that cannot be."""
        return self._built(list(zip(self.axes, point, strict=True)))

    def left_out(self, axis: Axis) -> Scalar:
        """The value that a key has where the base machine's file leaves it out; None if the axis has another one."""
        if axis.name == TARGET:
            return None
        base = self._built([])
        for value in axis.values:
            try:
                machine = self._built([(axis, value)])
            except MachineFileError:
                continue
            if replace(machine, name=base.name, text=base.text) == base:
                return value
        return None

    def structure(self, point: Point) -> Point:
        """The values of a point that are of no size: points that share them have the machine of `like` in common."""
        return tuple(value for axis, value in zip(self.axes, point, strict=True) if not _is_size(axis))

    def like(self, point: Point) -> Machine:
        """The machine that a point's price is fitted to: of the base's sizes, with what else differs. May not be."""
        return self._built([(axis, value) for axis, value in zip(self.axes, point, strict=True) if not _is_size(axis)])

    def _built(self, choices: Sequence[tuple[Axis, Scalar]]) -> Machine:
        """Overlays lie on the base, keys on the overlays; last go the engines that a point is without."""
        tree, choices = self.tree, [each for each in choices if each[0].name != TARGET]
        for axis, value in choices:
            if axis.overlay is not None and value:
                tree = laid_over(tree, axis.overlay)
        for axis, value in choices:
            if axis.overlay is None and not isinstance(value, bool):
                tree = laid_over(tree, setting_tree(axis.name, value))
        for axis, value in choices:
            if axis.overlay is None and value is False:
                tree = laid_over(tree, setting_tree(axis.name, None))
        texts = "".join(f"[{text}]" for axis, value in choices if (text := axis.text(value)))
        named = laid_over(tree, setting_tree("name", f"{Path(self.base).stem}{texts}"))
        return build_machine(named, Path(self.base).stem)


def as_written(value: Scalar) -> str:
    """A value as a file has it: `true`, `16`, `few`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: object) -> str:
    if not isinstance(value, int | float):
        return "is not known"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _is_size(axis: Axis) -> bool:
    return axis.overlay is None and SIZE.fullmatch(axis.name) is not None


def setting_tree(key: str, value: Scalar) -> Tree:
    """A tree with one value in it, to be merged on a machine."""
    where = Where(f"--set {key}={value}", 1, 1)
    tree = Tree(value, where)
    for part in reversed(key.split(".")):
        tree = Tree({part: tree}, where)
    return tree
