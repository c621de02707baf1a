"""Typed values out of a YAML tree: what is wrong is noted with its place, and a stand-in keeps the reading going."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.isa.errors import IsaError, did_you_mean, short
from tilewright.isa.files.expression import evaluate, names_in
from tilewright.isa.files.keys import QUOTED_NUMBER
from tilewright.isa.files.yaml_tree import Tree, Where
from tilewright.isa.key_kinds import NAME, Key, WholeNumber
from tilewright.isa.language.numeric import IntegerType, parse_type

LONGEST_COMPLAINT = 1000
"""The most characters of a message. Only absurd input makes a longer one."""


MOST_COMPLAINTS = 500
"""Faults after which the rest of a file is not looked at."""


class TooManyComplaints(Exception):
    """A reader has MOST_COMPLAINTS."""


class ValueReader:
    """Reads values and collects complaints; `names` are the parameters that expressions may use.

    `types` are those of memories' elements, by the memories' names.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.types: dict[str, IntegerType] = {}
        self.faulty_names: set[str] = set()
        """Names whose numbers are faulty and reported. Values that are computed from them are not reported again."""
        self._complaints: list[tuple[Where, str]] = []

    @property
    def complaint_count(self) -> int:
        return len(self._complaints)

    def complaints(self) -> list[str]:
        """Every complaint once, in the order of the file."""
        ordered = sorted(dict.fromkeys(self._complaints), key=lambda c: (c[0].file, c[0].line, c[0].column))
        return [f"{where}: {message}" for where, message in ordered]

    def complain(self, where: Where, path: str, message: str) -> None:
        text = f"{path}: {message}" if path else message
        self._complaints.append((where, text if len(text) <= LONGEST_COMPLAINT else text[:LONGEST_COMPLAINT] + "…"))
        if len(self._complaints) >= MOST_COMPLAINTS:
            raise TooManyComplaints

    def mapping(self, tree: Tree | None, path: str, keys: Mapping[str, Key]) -> Mapping[str, Tree]:
        """The children of a mapping with known keys; unknown and missing ones are complained of."""
        if tree is None:
            return {}
        children = self.open_mapping(tree, path)
        if not isinstance(tree.value, Mapping):
            return {}
        for key, child in children.items():
            if key not in keys:
                self.complain(child.where, path, f"unknown key {_unknown(key, list(keys))}")
        for key, known in keys.items():
            if known.is_needed and key not in children:
                self.complain(tree.where, path, f"the key {key!r} is missing")
        return {key: child for key, child in children.items() if key in keys}

    def open_mapping(self, tree: Tree | None, path: str) -> Mapping[str, Tree]:
        if tree is None:
            return {}
        if not isinstance(tree.value, Mapping):
            self.complain(tree.where, path, f"expected a mapping, not {tree.kind}")
            return {}
        for key, child in tree.value.items():
            if not re.fullmatch(NAME, key):
                self.complain(child.where, path, f"{short(key)} is not a name; expected letters, digits and _")
        return {k: v for k, v in tree.value.items() if re.fullmatch(NAME, k)}

    def number(self, children: Mapping[str, Tree], path: str, key: str, keys: Mapping[str, Key]) -> int:
        """As `integer`, for a key of the mapping at `path`."""
        kind = keys[key].kind
        assert isinstance(kind, WholeNumber)
        return self.integer(children.get(key), f"{path}.{key}" if path else key, kind)

    def number_or(
        self, default: int, children: Mapping[str, Tree], path: str, key: str, keys: Mapping[str, Key]
    ) -> int:
        """As `number`, for a key that may be left out."""
        return self.number(children, path, key, keys) if key in children else default

    def is_faulty(self, tree: Tree | None) -> bool:
        """Whether the number read there is a stand-in."""
        if tree is None:
            return False
        uses = names_in(tree.value) if isinstance(tree.value, str) else frozenset()
        return bool(uses & self.faulty_names) or any(where == tree.where for where, _ in self._complaints)

    def integer(self, tree: Tree | None, path: str, kind: WholeNumber) -> int:
        """A number or expression; the kind's `low` stands in for one that is wrong or missing."""
        low, high = kind.low, kind.high
        if tree is None:
            return low
        match tree.value:
            case bool() | None | float() | Mapping() | tuple():
                self.complain(tree.where, path, f"expected an integer, not {tree.kind}")
                return low
            case int(value):
                pass
            case str(text):
                if re.fullmatch(QUOTED_NUMBER, text):
                    self.complain(
                        tree.where, path, f"expected an integer, not the string {short(text)}; leave the quotes out"
                    )
                    return low
                if names_in(text) & self.faulty_names:
                    return low
                try:
                    value = evaluate(text, self.names)
                except IsaError as error:
                    self.complain(tree.where, path, str(error))
                    return low
        if not low <= value <= high:
            self.complain(tree.where, path, f"{value} is out of range; expected {low} to {high}")
            return low
        if kind.is_power_of_two and value & (value - 1):
            self.complain(tree.where, path, f"{value} is not a power of two, as AXI4 needs")
            return low
        return value

    def word(self, tree: Tree | None, path: str) -> str:
        if tree is None:
            return ""
        if not isinstance(tree.value, str):
            self.complain(tree.where, path, f"expected a word, not {tree.kind}")
            return ""
        return tree.value

    def words(self, tree: Tree | None, path: str, known: Sequence[str]) -> tuple[str, ...]:
        """A list of distinct words, each one of `known`."""
        if tree is None:
            return ()
        if not isinstance(tree.value, tuple):
            self.complain(tree.where, path, f"expected a list such as [{', '.join(known[:2])}], not {tree.kind}")
            return ()
        words: list[str] = []
        for item in tree.value:
            word = self.word(item, path)
            if not isinstance(item.value, str):
                continue
            if word in words:
                self.complain(item.where, path, f"{word!r} is listed twice")
            elif word in known:
                words.append(word)
            else:
                self.complain(item.where, path, f"unknown {_unknown(word, known)}")
        return tuple(words)

    def type(self, tree: Tree, path: str) -> IntegerType | None:
        try:
            return parse_type(str(tree.value), self.types)
        except IsaError as error:
            self.complain(tree.where, path, str(error))
            return None


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"{short(name)}{did_you_mean(name, list(known))}; expected {', '.join(known)}"
