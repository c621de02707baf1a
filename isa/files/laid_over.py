"""A machine's file with another one's keys, or with settings, laid over it; an engine that goes takes its work along.

Without an engine nothing can run what only it runs: those instructions go with it, and the lists of engines of the
others get shorter. So an engine that is there or not is one key, like any other (`engines.vec2: null`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.isa.files.keys import MACHINE_KEYS
from tilewright.isa.files.yaml_tree import Tree, apply_override, merge, setting
from tilewright.isa.key_kinds import Key, KeyMapping, Kind, Names, Word

ENGINES, INSTRUCTIONS, ENGINE = "engines", "instructions", "engine"

USUAL_SECTIONS = {
    name: frozenset(key.kind.keys)
    for name, key in MACHINE_KEYS.items()
    if isinstance(key.kind, KeyMapping) and not any(inner.is_needed for inner in key.kind.keys.values())
}
"""Sections of a machine that are there even where its file does not say them, with their keys."""


USUAL_CHOICES = frozenset(
    name for name, key in MACHINE_KEYS.items() if isinstance(key.kind, Word) and key.kind.choices and not key.is_needed
)
"""Keys with a word of few, which have their usual one where a file does not say them."""


def laid_over(base: Tree, over: Tree) -> Tree:
    """`base` with the keys of `over` on top, mapping by mapping; a key set to nothing (null) is removed."""
    gone = [name for name, child in _children(over, ENGINES).items() if child.value is None]
    return merge(_without(base, gone, _children(over, INSTRUCTIONS)), over)


def with_settings(tree: Tree, overrides: Iterable[str]) -> Tree:
    """The tree with `path=value` settings (`memories.act.kib=128`) applied; the path must exist, `=null` removes it.

    Raises IsaError.
    """
    for text in overrides:
        path, value = setting(text)
        changed = apply_override(_with_usual(tree, path), path, value, text)
        is_engine = len(path) == 2 and path[0] == ENGINES
        tree = _without(changed, [path[1]], {}) if is_engine and value.value is None else changed
    return tree


def _with_usual(tree: Tree, path: Sequence[str]) -> Tree:
    """The tree with a key that a setting names and that the file may leave out, so that there is one to replace.

    So with a key of the machine itself that is a choice of words or a section whose keys may all be left out, with a
    key of such a section, and of what the file names, such as a memory. Where a setting names no key of such a section,
    it gets all of them, so that what is said of that lists them.
    """
    if len(path) == 1 and path[0] in (USUAL_CHOICES | USUAL_SECTIONS.keys()) and isinstance(tree.value, Mapping):
        return tree if path[0] in tree.value else Tree({**tree.value, path[0]: Tree(None, tree.where)}, tree.where)
    if len(path) > 2:
        return _with_placeholder(tree, path) if _may_be_left_out(path) else tree
    keys = USUAL_SECTIONS.get(path[0]) if len(path) == 2 else None
    if keys is None or not isinstance(tree.value, Mapping):
        return tree
    wanted = {path[1]} & keys or keys
    there = {**dict.fromkeys(sorted(wanted), Tree(0, tree.where)), **_children(tree, path[0])}
    return Tree({**tree.value, path[0]: Tree(there, tree.where)}, tree.where)


def _may_be_left_out(path: Sequence[str]) -> bool:
    """Whether a path leads to a key that a file need not say, and that stands for no other one."""
    kind: Kind = KeyMapping(MACHINE_KEYS)
    last: Key | None = None
    for name in path:
        match kind:
            case KeyMapping(keys=keys, exactly_one_of=one_of) if name in keys:
                last = None if name in one_of else keys[name]
                kind = keys[name].kind
            case Names(values=values):
                last, kind = None, values
            case _:
                return False
    return last is not None and not last.is_needed


def _with_placeholder(tree: Tree, path: Sequence[str]) -> Tree:
    """The tree with nothing at a path, unless something is there, or nothing that it could be in."""
    if not path:
        return tree
    children = tree.value if isinstance(tree.value, Mapping) else {}
    if path[0] not in children and len(path) > 1:
        return tree
    below = _with_placeholder(children.get(path[0], Tree(None, tree.where)), path[1:])
    return Tree({**children, path[0]: below}, tree.where)


def _without(tree: Tree, engines: Iterable[str], said: Mapping[str, Tree]) -> Tree:
    """The tree with instructions of none of these engines, but for those whose engine is `said` anew."""
    gone = set(engines)
    instructions = _children(tree, INSTRUCTIONS)
    if not gone or not instructions:
        return tree
    assert isinstance(tree.value, Mapping)
    left: dict[str, Tree] = {}
    for name, child in instructions.items():
        named = child.value.get(ENGINE) if isinstance(child.value, Mapping) else None
        if named is None or ENGINE in _children(Tree(said, child.where), name):
            left[name] = child
            continue
        assert isinstance(child.value, Mapping)
        names = named.value if isinstance(named.value, tuple) else (named,)
        kept = tuple(each for each in names if each.value not in gone)
        if kept == names:
            left[name] = child
        elif kept:
            engine = Tree(kept, named.where) if len(kept) > 1 else kept[0]
            left[name] = Tree({**child.value, ENGINE: engine}, child.where)
    return Tree({**tree.value, INSTRUCTIONS: Tree(left, tree.value[INSTRUCTIONS].where)}, tree.where)


def _children(tree: Tree, key: str) -> Mapping[str, Tree]:
    """What stands below a key; nothing where there is no mapping."""
    child = tree.value.get(key) if isinstance(tree.value, Mapping) else None
    return child.value if child is not None and isinstance(child.value, Mapping) else {}
