"""What a study has found: its points with their figures, its front, the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.expression import Expression
from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.front import front, losses
from tilewright.codesign.explore.lines import Key, Line
from tilewright.codesign.explore.space import Axis, Constraint, Space, as_written
from tilewright.codesign.explore.store import POINTS, read_lines
from tilewright.codesign.explore.totals import Figures, all_figures, machine_figures
from tilewright.codesign.points.evaluate import NetworkFigures, outcome_from_json
from tilewright.codesign.points.priced import MachineFigures
from tilewright.codesign.version import version
from tilewright.isa.errors import did_you_mean
from tilewright.isa.files.yaml_tree import Scalar, Where, at

DONE, FAILED, EXCLUDED, DROPPED, OPEN = "measured", "failed", "excluded", "dropped", "open"
"""A point is measured; failed with a reason; outside the constraints; dropped, since another beats its bounds; or has
still to be computed."""

MEANINGS: Mapping[str, str] = {
    DONE: "measured",
    FAILED: "failed",
    EXCLUDED: "outside the constraints",
    DROPPED: "dropped, for another beats their bounds",
    OPEN: "not computed yet",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A point of a study. `figures` has what is known; `networks` the figures by network."""

    label: str
    values: tuple[Scalar, ...]
    state: str
    reason: str  # of what failed, was dropped or is outside the constraints
    figures: Figures
    networks: Mapping[str, NetworkFigures]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A constraint that points do not meet: how many, and which of them comes nearest, with the figures that it has."""

    constraint: str
    count: int
    nearest: Entry
    figures: str


def space_line(space: Space, networks: Mapping[str, str]) -> Line:
    """What a study must know of its space to be read without its files; `networks` are hashes by name."""
    return {
        "kind": "space",
        "version": version(),
        "base": space.base,
        "axes": [{"name": axis.name, "is_overlay": axis.overlay is not None} for axis in space.axes],
        "base_values": [_base_value(space, axis) for axis in space.axes],
        "networks": [
            {"name": each.name, "hash": networks[each.name], "weight": each.weight} for each in space.networks
        ],
        "objectives": list(space.objectives),
        "constraints": [(each.expression.text, each.where.line, each.where.column) for each in space.constraints],
        "constants": dict(space.constants),
        "effort": space.effort,
        "clock": space.needs_clock,
        "beside": str(space.beside.absolute()),
    }


def _base_value(space: Space, axis: Axis) -> Scalar:
    """What the base machine has of an axis; None where no value of it is the base's."""
    if axis.overlay is not None:
        return 0
    found = at(space.tree, axis.name.split("."))
    if found is None:
        return space.left_out(axis)
    if isinstance(found.value, tuple):
        return None
    return True if isinstance(found.value, Mapping) else found.value  # it has the engine


class Study:
    """A study's folder as it stands; another process may be adding to it."""

    def __init__(self, folder: str | Path) -> None:
        """Raises StudyError where there is no study."""
        path = Path(folder) / POINTS
        if not path.is_file():
            raise StudyError(f"{folder}: is no study: it has no {POINTS}; `tilewright explore run` makes one")
        self._lines, _, self.notes = read_lines(path)
        spaces = [line for key, line in self._lines.items() if key[0] == "space"]
        if not spaces:
            raise StudyError(f"{path}: has no line with its space; give the command that began it again")
        self._space = spaces[-1]
        self.folder = Path(folder)
        self.base: str = self._space["base"]
        self.objectives: tuple[str, ...] = tuple(self._space["objectives"])
        self.axes: tuple[str, ...] = tuple(axis["name"] for axis in self._space["axes"])
        self.networks: Mapping[str, float] = {each["name"]: each["weight"] for each in self._space["networks"]}
        self._constraints = [
            Constraint(Expression(text), Where("space.yaml", line, column))
            for text, line, column in self._space["constraints"]
        ]

    def __repr__(self) -> str:
        return f"<Study {self.folder}: {len(self.entries)} points, {len(self.front)} on the front>"

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All points that were begun, by their values, in the order of the axes."""
        lines = [line for key, line in self._lines.items() if self._is_of_space(key, line)]
        return tuple(sorted((self._entry(line) for line in lines), key=_order))

    def _is_of_space(self, key: Key, line: Line) -> bool:
        """Whether a line is of a machine that has a value for each axis."""
        return key[0] == "machine" and len(line["values"]) == len(self.axes)

    @property
    def measured(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.state == DONE]

    @cached_property
    def front(self) -> list[Entry]:
        """The points that none beats in every objective, best first by the first one.

        Of all, those alone that leave fewest nodes to the host, whose time is in no cycles.
        """
        return self.front_in(self.objectives)

    def front_in(self, objectives: Sequence[str]) -> list[Entry]:
        """The same in other figures. Raises StudyError for one that is not known."""
        for name in objectives:
            self._require_figure(name)
        measured = self.comparable("host_nodes" in objectives)
        known = [entry for entry in measured if all(entry.figures.get(name) is not None for name in objectives)]
        return front((entry, losses(entry.figures, objectives)) for entry in known)

    def best(self, objective: str, **limits: float) -> Entry:
        """The best measured point by a figure, under limits: `best("cycles", area_mm2=2.0)` is of at most 2 mm².

        A limit is the least where more is better, `clock_mhz=300`. Raises StudyError when there is none.
        """
        for name in (objective, *limits):
            self._require_figure(name)
        within = [
            entry
            for entry in self.comparable("host_nodes" in (objective, *limits))
            if entry.figures.get(objective) is not None
            and all(_is_within(entry.figures.get(name), name, limit) for name, limit in limits.items())
        ]
        if not within:
            said = ", ".join(f"{name}={limit:g}" for name, limit in limits.items())
            raise StudyError(f"{self.folder}: no measured point is within {said}" if said else self._nothing())
        return min(within, key=lambda entry: (losses(entry.figures, [objective, *limits]), entry.label))

    def counts(self) -> Mapping[str, int]:
        """How many points there are in each state."""
        found = Counter(entry.state for entry in self.entries)
        return {state: found[state] for state in MEANINGS if found[state]}

    def difference(self, entry: Entry) -> str:
        """A point by what differs from the base machine: `array.rows 16 → 8`."""
        return ", ".join(change for _, change in self._changes(entry)) or "the base machine"

    def _changes(self, entry: Entry) -> list[tuple[str, str]]:
        found = []
        for axis, base, value in zip(self._space["axes"], self._space["base_values"], entry.values, strict=True):
            name = axis["name"]
            if value != base:
                change = (
                    f"{name} {as_written(value)}"
                    if base is None
                    else f"{name} {as_written(base)} → {as_written(value)}"
                )
                found.append((name, f"+{name}" if axis["is_overlay"] else change))
        return found

    @cached_property
    def searches(self) -> Mapping[str, frozenset[str]]:
        """The labels of the points that each search looked at."""
        found: dict[str, set[str]] = {}
        for key, line in self._lines.items():
            if key[0] == "search" and line["version"] == self._version:
                found.setdefault(line["name"], set()).update(line["labels"])
        return {name: frozenset(labels) for name, labels in found.items()}

    def comparable(self, is_host_compared: bool = False) -> list[Entry]:
        """The measured points; of those, unless the host's nodes are compared themselves, that leave fewest to it."""
        measured = self.measured
        fewest = min((entry.figures["host_nodes"] or 0 for entry in measured), default=0)
        return [entry for entry in measured if is_host_compared or (entry.figures["host_nodes"] or 0) == fewest]

    def exclusions(self) -> list[Exclusion]:
        """What each constraint over figures excludes of the points that are not measured for it, most first."""
        unmet: dict[Constraint, list[Entry]] = {}
        for entry in self.entries:
            if entry.state == EXCLUDED:
                is_final = len(entry.networks) == len(self.networks)
                for constraint in self._unmet(entry.values, entry.figures, is_final):
                    unmet.setdefault(constraint, []).append(entry)
        found = []
        for constraint, entries in unmet.items():
            gaps = [(constraint.expression.gap(self._names(e.values, e.figures)), e.label, e) for e in entries]
            nearest = min(gaps, key=lambda each: each[:2])[2]
            text = constraint.expression.text
            found.append(Exclusion(text, len(entries), nearest, constraint.figures_text(nearest.figures)))
        return sorted(found, key=lambda each: -each.count)

    def host_note(self) -> str:
        """What is left to the host by the points that are compared; nothing if nothing is."""
        nodes = {int(entry.figures["host_nodes"] or 0) for entry in self.comparable()} - {0}
        texts = [f"The points of the front leave {n} node{'s' * (n != 1)} to the host, " for n in nodes]
        return "".join(f"{text}whose time is in no cycles." for text in texts)

    def _nothing(self) -> str:
        found = [
            f"`{each.constraint}` excludes {each.count:,}, and what comes nearest has {each.figures}: "
            f"{self.difference(each.nearest)}"
            for each in self.exclusions()
        ]
        if not found:
            return f"{self.folder}: no point is measured yet"
        return "\n".join([f"{self.folder}: no measured point meets the constraints", *found])

    def _require_figure(self, name: str) -> None:
        if name not in FIGURES:
            raise StudyError(f"no figure {name!r}{did_you_mean(name, list(FIGURES))}; there are: {', '.join(FIGURES)}")

    # -- one point -----------------------------------------------------------------------------------------------------

    def _entry(self, line: Line) -> Entry:
        label, values = line["label"], tuple(line["values"])
        if "failure" in line:
            return Entry(label, values, FAILED, _reason(line["failure"]), {}, {})
        price = self._find("price", line["machine"], self._space["clock"], self._version)
        if price is None:
            return Entry(label, values, OPEN, "", {}, {})
        if "failure" in price:
            return Entry(label, values, FAILED, _reason(price["failure"]), {}, {})
        machine = MachineFigures.from_json(price["figures"])
        return self._measured(label, values, line["machine"], machine)

    @property
    def _version(self) -> str:
        return str(self._space["version"])

    def _find(self, *key: Any) -> Line | None:
        found: Key = key
        return self._lines.get(found)

    def line(self, *key: Any) -> Line | None:
        """A line of the study's file, by its kind and what it is known by."""
        return self._find(*key)

    @property
    def space_facts(self) -> Line:
        """What the study knows of its space."""
        return self._space

    def _measured(self, label: str, values: tuple[Scalar, ...], key: str, machine: MachineFigures) -> Entry:
        """A point whose machine has a price: what its networks came to."""
        networks: dict[str, NetworkFigures] = {}
        figures: Figures = machine_figures(machine)
        state, reason = OPEN, ""
        if unmet := self._reasons(values, figures, is_final=False):
            return Entry(label, values, EXCLUDED, unmet, figures, networks)
        for network in self._space["networks"]:
            line = self._find("point", key, network["hash"], self._space["effort"], self._version)
            if line is None:
                continue
            outcome = outcome_from_json(line["outcome"])
            if isinstance(outcome, NetworkFigures):
                networks[network["name"]] = outcome
            else:
                state, reason = FAILED, f"{network['name']}: {_reason(line['outcome'])}"
        if len(networks) == len(self.networks):
            figures = all_figures(machine, [(weight, networks[name]) for name, weight in self.networks.items()])
            reason = self._reasons(values, figures, is_final=True)
            state = EXCLUDED if reason else DONE
        elif state == OPEN and (dropped := self._find("dropped", label, self._version)) is not None:
            state, reason = DROPPED, f"{dropped['by']} is no worse even at {dropped['least_cycles']:,.0f} cycles"
        return Entry(label, values, state, reason, figures, networks)

    def _reasons(self, values: tuple[Scalar, ...], figures: Figures, is_final: bool) -> str:
        """The constraints that a point does not meet, with its figures; nothing if it meets all that can be told."""
        unmet = self._unmet(values, figures, is_final)
        return "; ".join(f"not {each.expression.text}: {each.figures_text(figures)}" for each in unmet)

    def _unmet(self, values: tuple[Scalar, ...], figures: Figures, is_final: bool) -> list[Constraint]:
        names = self._names(values, figures)
        told = (each for each in self._constraints if is_final or not each.needs_networks)
        return [each for each in told if not each.is_met(names)]

    def _names(self, values: tuple[Scalar, ...], figures: Figures) -> Mapping[str, object]:
        return {**self._space["constants"], **dict(zip(self.axes, values, strict=True)), **figures}


def _order(entry: Entry) -> tuple[tuple[bool, float, str], ...]:
    """Numbers by their size, before words."""
    return tuple(
        (False, float(value), "") if isinstance(value, int | float) else (True, 0.0, str(value))
        for value in entry.values
    )


def _reason(failure: Mapping[str, Any]) -> str:
    return f"{failure['stage']}: {failure['reason']}"


def _is_within(value: float | None, name: str, limit: float) -> bool:
    if value is None:
        return False
    return value >= limit if FIGURES[name].is_more_better else value <= limit
