"""Changes of what YAML and JSON hold: values replaced, keys renamed or left out, items doubled, subtrees moved."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, assert_never

from hypothesis import strategies
from hypothesis.strategies import DrawFn, SearchStrategy

Path = tuple[str | int, ...]


class Change(Enum):
    SET = "set"  # to the edit's value
    DELETE = "delete"
    RENAME = "rename"  # the key, to the edit's value
    DOUBLE = "double"  # an item of a list
    COPY = "copy"  # to the value at another path, which is the edit's value

    def __repr__(self) -> str:
        return f"Change.{self.name}"


@dataclass(frozen=True)
class Edit:
    """One change at a path; where there is no such path, or none of that kind, nothing."""

    change: Change
    path: Path
    value: Any = None


def edited(tree: Any, edits: tuple[Edit, ...]) -> Any:
    """A copy of the tree with these changes, one after the other."""
    tree = copy.deepcopy(tree)
    for edit in edits:
        parent, key = _at(tree, edit.path[:-1]), edit.path[-1]
        if _at(tree, edit.path) is not MISSING:
            _apply(tree, parent, key, edit)
    return tree


def _apply(tree: Any, parent: Any, key: str | int, edit: Edit) -> None:
    match edit.change:
        case Change.SET:
            parent[key] = copy.deepcopy(edit.value)
        case Change.DELETE:
            del parent[key]
        case Change.RENAME:
            if isinstance(parent, dict) and edit.value not in parent:
                renamed = {edit.value if k == key else k: v for k, v in parent.items()}
                parent.clear()
                parent.update(renamed)
        case Change.DOUBLE:
            if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[int(key)]))
        case Change.COPY:
            other = _at(tree, edit.value)
            if other is not MISSING:
                parent[key] = copy.deepcopy(other)
        case _:
            assert_never(edit.change)


MISSING = object()


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        is_item = isinstance(tree, list) and isinstance(key, int) and key < len(tree)
        if not is_item and not (isinstance(tree, dict) and key in tree):
            return MISSING
        tree = tree[key]
    return tree


def paths(tree: Any, prefix: Path = ()) -> Iterator[Path]:
    """The path of everything in a tree but its root."""
    items: list[tuple[Any, Any]] = []
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    for key, value in items:
        yield (*prefix, key)
        yield from paths(value, (*prefix, key))


def edits(tree: Any, names: list[str], values: SearchStrategy[Any], most: int = 4) -> SearchStrategy[tuple[Edit, ...]]:
    """Up to `most` changes of a tree; new keys are of `names`, new leaves near the old ones or of `values`."""
    known = list(paths(tree))

    @strategies.composite
    def edit(draw: DrawFn) -> Edit:
        path = draw(strategies.sampled_from(known))
        change = draw(strategies.sampled_from([Change.SET] * 5 + list(Change)))
        match change:
            case Change.SET:
                return Edit(change, path, draw(_near(_at(tree, path), values)))
            case Change.RENAME:
                return Edit(change, path, draw(strategies.sampled_from(names)))
            case Change.COPY:
                return Edit(change, path, draw(strategies.sampled_from(known)))
            case Change.DELETE | Change.DOUBLE:
                return Edit(change, path)
            case _:
                assert_never(change)

    return strategies.lists(edit(), min_size=0, max_size=most).map(tuple)


def _near(value: Any, values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    if isinstance(value, int) and not isinstance(value, bool):
        near = strategies.sampled_from([value - 1, value + 1, value // 2, min(2 * value, value + 64), 1, 0])
        return strategies.one_of(near, near, values)
    if isinstance(value, dict | list):
        return strategies.one_of(values, strategies.sampled_from([{}, [], None]))
    return values
