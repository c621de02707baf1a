"""Typed values out of a YAML tree: what is wrong is noted with its place, and a stand-in keeps the reading going."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from isa.errors import IsaError
from isa.expression import evaluate
from isa.numeric import IntegerType, parse_integer_type
from isa.statement import did_you_mean
from isa.yaml_tree import Tree, Where


class Reader:
    """Reads values and collects complaints; `names` are the parameters that expressions may use."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._complaints: list[tuple[Where, str]] = []

    @property
    def complaint_count(self) -> int:
        return len(self._complaints)

    def complaints(self) -> list[str]:
        """Every complaint once, in the order of the file."""
        ordered = sorted(dict.fromkeys(self._complaints), key=lambda c: (c[0].file, c[0].line, c[0].column))
        return [f"{where}: {message}" for where, message in ordered]

    def complain(self, where: Where, path: str, message: str) -> None:
        self._complaints.append((where, f"{path}: {message}" if path else message))

    def mapping(self, tree: Tree | None, path: str, keys: Mapping[str, bool]) -> Mapping[str, Tree]:
        """The children of a mapping with known keys; unknown and missing ones are complained of."""
        if tree is None:
            return {}
        children = self.open_mapping(tree, path)
        for key, child in children.items():
            if key not in keys:
                self.complain(
                    child.where, path, f"unknown key {key!r}{did_you_mean(key, list(keys))}; expected {', '.join(keys)}"
                )
        for key, is_needed in keys.items():
            if is_needed and key not in children:
                self.complain(tree.where, path, f"the key {key!r} is missing")
        return {key: child for key, child in children.items() if key in keys}

    def open_mapping(self, tree: Tree | None, path: str) -> Mapping[str, Tree]:
        if tree is None:
            return {}
        if not isinstance(tree.value, Mapping):
            self.complain(tree.where, path, f"expected a mapping, not {tree.kind}")
            return {}
        for key, child in tree.value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                self.complain(child.where, path, f"{key!r} is not a name; expected letters, digits and _")
        return {k: v for k, v in tree.value.items() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", k)}

    def integer(self, tree: Tree | None, path: str, low: int, high: int) -> int:
        """A number or expression from `low` to `high`; `low` stands in for one that is wrong or missing."""
        if tree is None:
            return low
        match tree.value:
            case bool() | None | float() | Mapping() | tuple():
                self.complain(tree.where, path, f"expected an integer, not {tree.kind}")
                return low
            case int(value):
                pass
            case str(text):
                if re.fullmatch(r"\s*[-+]?[0-9_.]+\s*", text):
                    self.complain(
                        tree.where, path, f"expected an integer, not the string {text!r}; leave the quotes out"
                    )
                    return low
                try:
                    value = evaluate(text, self.names)
                except IsaError as error:
                    self.complain(tree.where, path, str(error))
                    return low
        if not low <= value <= high:
            self.complain(tree.where, path, f"{value} is out of range; expected {low} to {high}")
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
            if word in words:
                self.complain(item.where, path, f"{word!r} stands twice")
            elif word in known:
                words.append(word)
            elif word:
                self.complain(
                    item.where, path, f"unknown {word!r}{did_you_mean(word, list(known))}; expected {', '.join(known)}"
                )
        return tuple(words)

    def type(self, tree: Tree, path: str) -> IntegerType | None:
        try:
            return parse_integer_type(str(tree.value))
        except IsaError as error:
            self.complain(tree.where, path, str(error))
            return None
