"""A failing machine file becomes a small one: keys go while the failure stays, and numbers return to the base's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.random_machines import overlay_text

KEPT = Path(__file__).parent / "machines"
"""Shrunk machines that once failed; `tests/test_random_machines.py` replays each."""

Overlay = dict[str, Any]
Path_ = tuple[str, ...]


def shrink(overlay: Overlay, fails: Callable[[Overlay], bool]) -> Overlay:
    """The overlay without every key that the failure does not need; what is left fails as well.

    `fails` says of any overlay whether it shows the failure; one that does not load does not.
    """
    assert fails(overlay), "there is no failure to keep"
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for path in sorted(_paths(overlay), key=len):
            candidate = _without(overlay, path)
            if candidate is not None and fails(candidate):
                overlay, is_smaller = candidate, True
    return overlay


def keep(overlay: Overlay, name: str, fails: Callable[[Overlay], bool]) -> Path:
    """Shrink a failing machine and write it among those that are replayed."""
    path = KEPT / f"{name}.yaml"
    path.write_text(overlay_text(shrink(overlay, fails)))
    return path


def _paths(tree: Mapping[str, Any], above: Path_ = ()) -> Iterator[Path_]:
    for key, value in tree.items():
        if (*above, key) == ("extends",):
            continue
        yield (*above, key)
        if isinstance(value, Mapping):
            yield from _paths(value, (*above, key))


def _without(tree: Overlay, path: Path_) -> Overlay | None:
    """The tree without one key, and without mappings that become empty; None if the key is gone already."""
    first, *rest = path
    if first not in tree:
        return None
    others = {key: value for key, value in tree.items() if key != first}
    if not rest:
        return others
    if not isinstance(tree[first], dict):
        return None
    inner = _without(tree[first], tuple(rest))
    if inner is None:
        return None
    return {**tree, first: inner} if inner else others
