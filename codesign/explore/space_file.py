"""Reads the file of a space. Everything that is wrong with it is said before any work, with its line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tilewright.codesign.errors import StudyError
from tilewright.codesign.explore.expression import Expression
from tilewright.codesign.explore.figures import FIGURES
from tilewright.codesign.explore.machine_keys import fault_of, kind_of_key
from tilewright.codesign.explore.met import is_met_by_some, looked_at
from tilewright.codesign.explore.space import SPECIALISED, TARGET, Axis, Constraint, Space, WeightedNetwork
from tilewright.codesign.price.choice import MOST_MHZ
from tilewright.codesign.specialise.share import EXPECTED, share_of
from tilewright.compiler.search.effort import EFFORTS
from tilewright.isa.errors import IsaError, did_you_mean, short
from tilewright.isa.files.loader import machine_tree, read_machine_file, read_overlay
from tilewright.isa.files.reader import TooManyComplaints, ValueReader
from tilewright.isa.files.yaml_tree import Scalar, Tree, Where, at, parse_yaml
from tilewright.isa.key_kinds import Key, Names, WholeNumber, Word, Words
from tilewright.isa.outside import LARGEST

MOST_VALUES = 10_000
"""Values of one key; a range of more is a slip."""

MOST_CHARACTERS = 2_000
"""Of all constraints together: they are computed for every point."""

AXES = {
    SPECIALISED: "is what the instructions of `specialise` are called",
    TARGET: "is what a clock of `targets` is called",
}
"""Axes that are neither keys nor overlays, whose names no overlay can have."""

EFFORT = WholeNumber(0, len(EFFORTS) - 1)

SPACE_KEYS = {
    "base": Key(Word(), "The shipped machine or .yaml file that all points change."),
    "keys": Key(Names(Word()), "Keys of the machine, each with a list of values or a range.", is_needed=False),
    "overlays": Key(Names(Word()), "Files to lay over the machine or not, by name.", is_needed=False),
    "specialise": Key(Word(), "How much logic instructions to be found may add, such as +5%.", is_needed=False),
    "targets": Key(Words(), "Clocks in MHz to aim at, as price --target does.", is_needed=False),
    "constraints": Key(Words(), "What a point must meet.", is_needed=False),
    "networks": Key(Names(Word()), "ONNX files by name, each with a weight of 1 or its own."),
    "objectives": Key(Words(), "Figures of which none may be worse without another being better."),
    "effort": Key(EFFORT, "How hard to search for a faster program; 1 if left out.", is_needed=False),
}

NETWORK_KEYS = {
    "model": Key(Word(), "An ONNX or TFLite file."),
    "weight": Key(Word(), "How often it runs beside the others; 1 if left out.", is_needed=False),
    "batch": Key(WholeNumber(1, 1 << 20), "Images of a run, where that is faster for each.", is_needed=False),
}

RANGE_KEYS = {
    "from": Key(WholeNumber(-(1 << 40), 1 << 40), "The first value."),
    "to": Key(WholeNumber(-(1 << 40), 1 << 40), "No value is above it."),
    "step": Key(WholeNumber(1, 1 << 40), "What is added each time.", is_needed=False),
    "times": Key(WholeNumber(2, 1 << 20), "What is multiplied by each time.", is_needed=False),
}


def read_space(path: str | Path) -> Space:
    """The space in a file; networks, overlays and base machines are looked for beside it.

    Raises StudyError with every fault, a line each.
    """
    path = Path(path)
    try:
        text = read_machine_file(path)
        return SpaceReader(str(path), path.parent).read(text)
    except IsaError as error:
        raise StudyError(str(error)) from error


def read_space_text(text: str, beside: Path) -> Space:
    """The same of a text whose files are in the folder `beside`."""
    try:
        return SpaceReader(str(beside / "space.yaml"), beside).read(text)
    except IsaError as error:
        raise StudyError(str(error)) from error


class SpaceReader:
    """Walks a file once, noting complaints."""

    def __init__(self, name: str, beside: Path) -> None:
        self._name = name
        self._beside = beside
        self._reader = ValueReader()
        self._trees: list[Tree] = []  # of the base machine and the overlays

    def read(self, text: str) -> Space:
        """Raises StudyError, IsaError for what is not YAML."""
        tree = parse_yaml(text, self._name)
        try:
            space = self._space(tree, text)
        except TooManyComplaints:
            space = None
        if space is None or self._reader.complaint_count:
            raise StudyError("\n".join(self._reader.complaints()))
        return space

    def _space(self, tree: Tree, text: str) -> Space | None:
        top = self._reader.mapping(tree, "", SPACE_KEYS)
        base, machine = self._base(top.get("base"))
        overlays = self._overlays(top.get("overlays"))
        self._trees = [*([machine] if machine else []), *(axis.overlay for axis in overlays if axis.overlay)]
        axes = (*(self._axes(top.get("keys")) if machine else ()), *overlays)
        axes += self._specialised(top.get("specialise"), machine)
        axes += self._targets(top.get("targets"))
        constraints = self._constraints(top.get("constraints"))
        networks = self._networks(top.get("networks"))
        objectives = self._objectives(top.get("objectives"))
        effort = self._reader.number_or(1, top, "", "effort", SPACE_KEYS)
        if machine is None or self._reader.complaint_count:
            return None
        constants = self._constants(constraints, axes, machine)
        if self._reader.complaint_count == 0:
            self._check_met(constraints, axes, constants)
        return Space(base, machine, axes, constraints, networks, objectives, effort, text, constants, self._beside)

    def _specialised(self, tree: Tree | None, machine: Tree | None) -> tuple[Axis, ...]:
        if tree is None:
            return ()
        share = share_of(str(tree.value))
        if share is None:
            self._reader.complain(tree.where, "specialise", f"{EXPECTED}, not {short(tree.value)}")
        return (Axis(SPECIALISED, (0, 1), machine, share),)

    def _targets(self, tree: Tree | None) -> tuple[Axis, ...]:
        if tree is None:
            return ()
        values = self._values(tree, "targets")
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_MHZ:
                fault = f"expected whole MHz from 1 to {MOST_MHZ:,}, not {short(value)}"
                self._reader.complain(tree.where, "targets", fault)
        return (Axis(TARGET, values),)

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _base(self, tree: Tree | None) -> tuple[str, Tree | None]:
        name = self._reader.word(tree, "base")
        if tree is None or not name:
            return "", None
        found = self._found(name)
        try:
            return found, machine_tree(found)
        except IsaError as error:
            self._reader.complain(tree.where, "base", str(error))
        return found, None

    def _found(self, name: str) -> str:
        """A file beside the space, or the name of a shipped machine."""
        return str(self._beside / name) if name.endswith((".yaml", ".yml")) else name

    def _overlays(self, tree: Tree | None) -> tuple[Axis, ...]:
        found = []
        for name, child in self._reader.open_mapping(tree, "overlays").items():
            path = self._reader.word(child, f"overlays.{name}")
            if not path:
                continue
            if name in AXES:
                self._reader.complain(child.where, f"overlays.{name}", f"{AXES[name]}; give it another name")
                continue
            try:
                found.append(Axis(name, (0, 1), read_overlay(self._found(path))))
            except IsaError as error:
                self._reader.complain(child.where, f"overlays.{name}", str(error))
        return tuple(found)

    def _axes(self, tree: Tree | None) -> Iterator[Axis]:
        if tree is None:
            return
        if not isinstance(tree.value, Mapping):
            self._reader.complain(tree.where, "keys", f"expected a mapping, not {tree.kind}")
            return
        for key, child in tree.value.items():
            before = self._reader.complaint_count
            try:
                kind = kind_of_key(key, self._trees)
            except StudyError as error:
                self._reader.complain(child.where, f"keys.{key}", str(error))
                continue
            values = self._values(child, f"keys.{key}")
            for value in values:
                fault = fault_of(value, kind)
                if fault:
                    self._reader.complain(child.where, f"keys.{key}", fault)
            if self._reader.complaint_count == before:
                yield Axis(key, values)

    def _values(self, tree: Tree, path: str) -> tuple[Scalar, ...]:
        match tree.value:
            case tuple(items):
                values = [item.value for item in items if not isinstance(item.value, Mapping | tuple)]
                if len(values) < len(items) or not values:
                    self._reader.complain(tree.where, path, "is empty; expected values such as [8, 16], or a range")
                if len(set(values)) < len(values):
                    self._reader.complain(tree.where, path, f"has a value twice: {short(values)}")
                return tuple(values)
            case Mapping():
                return self._range(tree, path)
        message = f"expected a list such as [8, 16] or a range such as {{from: 8, to: 32, times: 2}}, not {tree.kind}"
        self._reader.complain(tree.where, path, message)
        return ()

    def _range(self, tree: Tree, path: str) -> tuple[Scalar, ...]:
        before = self._reader.complaint_count
        keys = self._reader.mapping(tree, path, RANGE_KEYS)
        if ("step" in keys) == ("times" in keys):
            self._reader.complain(tree.where, path, "a range takes either step or times")
        numbers = {key: self._reader.number(keys, path, key, RANGE_KEYS) for key in keys}
        if self._reader.complaint_count > before:
            return ()
        first, last = numbers["from"], numbers["to"]
        if first > last or ("times" in numbers and first <= 0):
            self._reader.complain(tree.where, path, f"no values from {first} to {last}; the range is empty")
            return ()
        values: list[int] = []
        while first <= last and len(values) <= MOST_VALUES:
            values.append(first)
            first = first * numbers["times"] if "times" in numbers else first + numbers["step"]
        if len(values) > MOST_VALUES:
            self._reader.complain(tree.where, path, f"has more than {MOST_VALUES} values; make the steps larger")
        return tuple(values)

    # -- what points are measured by -----------------------------------------------------------------------------------

    def _constraints(self, tree: Tree | None) -> tuple[Constraint, ...]:
        found = []
        texts = self._texts(tree, "constraints")
        if tree is not None and sum(len(text) for text, _ in texts) > MOST_CHARACTERS:
            self._reader.complain(tree.where, "constraints", f"have more than {MOST_CHARACTERS} characters together")
            return ()
        for text, where in texts:
            try:
                found.append(Constraint(Expression(text), where))
            except StudyError as error:
                self._reader.complain(where, "constraints", str(error))
        return tuple(found)

    def _texts(self, tree: Tree | None, path: str) -> list[tuple[str, Where]]:
        if tree is None:
            return []
        if not isinstance(tree.value, tuple):
            self._reader.complain(tree.where, path, f"expected a list, not {tree.kind}")
            return []
        return [(self._reader.word(item, path), item.where) for item in tree.value]

    def _networks(self, tree: Tree | None) -> tuple[WeightedNetwork, ...]:
        found = []
        if tree is not None and not isinstance(tree.value, Mapping):
            self._reader.complain(tree.where, "networks", f"expected a mapping, not {tree.kind}")
        for name, child in (tree.value if tree is not None and isinstance(tree.value, Mapping) else {}).items():
            path, weight, batch, place = child, 1.0, None, f"networks.{name}"
            if isinstance(child.value, Mapping):
                keys = self._reader.mapping(child, place, NETWORK_KEYS)
                if "model" not in keys:
                    continue
                path, weight = keys["model"], self._weight(keys.get("weight"), f"{place}.weight")
                batch = self._reader.number_or(0, keys, place, "batch", NETWORK_KEYS) or None
            file = self._beside / self._reader.word(path, place)
            if isinstance(path.value, str) and not os.path.isfile(file):
                self._reader.complain(path.where, place, f"there is no file {short(str(file))}; expected an ONNX model")
            found.append(WeightedNetwork(name, file, weight, batch))
        if tree is not None and isinstance(tree.value, Mapping) and not tree.value:
            self._reader.complain(tree.where, "networks", "expected at least one network")
        return tuple(found)

    def _weight(self, tree: Tree | None, path: str) -> float:
        if tree is None:
            return 1.0
        if isinstance(tree.value, bool) or not isinstance(tree.value, int | float) or not 0 < tree.value <= LARGEST:
            self._reader.complain(tree.where, path, f"expected a number above 0, not {tree.kind}")
            return 1.0
        return float(tree.value)

    def _objectives(self, tree: Tree | None) -> tuple[str, ...]:
        texts = self._texts(tree, "objectives")
        for text, where in texts:
            if text not in FIGURES:
                hint = did_you_mean(text, list(FIGURES))
                self._reader.complain(
                    where, "objectives", f"unknown {short(text)}{hint}; expected {', '.join(FIGURES)}"
                )
        names = [text for text, _ in texts]
        if tree is not None and (not names or len(set(names)) < len(names)):
            self._reader.complain(tree.where, "objectives", "expected one or more different figures")
        return tuple(names)

    # -- constraints against the machine -------------------------------------------------------------------------------

    def _constants(self, constraints: Sequence[Constraint], axes: Sequence[Axis], base: Tree) -> dict[str, Scalar]:
        """Keys of the base machine that constraints use and that no axis varies."""
        found: dict[str, Scalar] = {}
        varied = {axis.name for axis in axes}
        for constraint in constraints:
            for name in sorted(constraint.expression.names - varied - FIGURES.keys()):
                try:
                    found[name] = _constant(name, base)
                except StudyError as error:
                    self._reader.complain(constraint.where, "constraints", f"`{constraint.expression.text}`: {error}")
        return found

    def _check_met(
        self, constraints: Sequence[Constraint], axes: Sequence[Axis], constants: Mapping[str, Scalar]
    ) -> None:
        """Complain of a constraint of keys that no point meets; then of all of them together."""
        of_keys = [constraint for constraint in constraints if not constraint.figures]
        for constraint in of_keys:
            if not is_met_by_some([constraint], axes, constants):
                message = f"no point {looked_at([constraint], axes)} meets `{constraint.expression.text}`"
                return self._reader.complain(constraint.where, "constraints", message)
        if of_keys and not is_met_by_some(of_keys, axes, constants):
            which = looked_at(of_keys, axes)
            message = f"no point {which} meets all of the constraints, though each by itself is met by some"
            self._reader.complain(of_keys[0].where, "constraints", message)


def _constant(name: str, base: Tree) -> Scalar:
    known = at(base, name.split("."))
    if known is None or isinstance(known.value, Mapping | tuple):
        names = [*FIGURES, *_paths(base)]
        raise StudyError(f"{name!r} is no key of the machine and no figure{did_you_mean(name, names[:200])}")
    if not isinstance(known.value, int | float):
        raise StudyError(f"{name} is {short(known.value)} in the base machine and no number; put it under keys")
    return known.value


def _paths(tree: Tree) -> Iterator[str]:
    """Every key of a machine but its instructions', written with dots."""
    children = tree.value if isinstance(tree.value, Mapping) else {}
    for key, child in children.items():
        if key == "instructions":
            continue
        yield key
        yield from (f"{key}.{path}" for path in _paths(child))
