"""What a machine's file would take for a key: found in the tables of keys, by the names that a machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codesign.errors import StudyError
from tilewright.isa.errors import IsaError, did_you_mean, short
from tilewright.isa.files.keys import MACHINE_KEYS
from tilewright.isa.files.yaml_tree import Scalar, Tree, at
from tilewright.isa.key_kinds import Either, Instances, KeyMapping, Kind, Names, TypeName, WholeNumber, Word
from tilewright.isa.language.numeric import parse_type


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether the machine has an engine: true, or false for a machine without it and without what only it runs."""


Varied = WholeNumber | Word | TypeName | Presence
"""What a key that a space varies holds."""


def kind_of_key(path: str, trees: Sequence[Tree]) -> Varied:
    """What a key such as `memories.act.kib` holds, in a machine of one of these trees. Raises StudyError."""
    kind: Kind = KeyMapping(MACHINE_KEYS)
    is_engine = False
    for depth, part in enumerate(parts := path.split(".")):
        above = ".".join(parts[:depth])
        kind = _one_of(kind, Names)
        known = _known(kind, parts[:depth], trees)
        if part not in known:
            place = above or "the machine"
            listing = f"; it has: {', '.join(known)}" if known else ", which is a value and not a section"
            raise StudyError(f"{place} has no key {part!r}{did_you_mean(part, known)}{listing}")
        is_engine = isinstance(kind, Instances)
        kind = kind.keys[part].kind if isinstance(kind, KeyMapping) else _values(kind, parts[: depth + 1], trees)
    if is_engine:
        return Presence()
    kind = _one_of(kind, TypeName, Word)
    if not isinstance(kind, WholeNumber | Word | TypeName):
        known = _known(kind, parts, trees)
        raise StudyError(f"{path} is a section; expected one of its keys, such as {path}.{known[0] if known else '…'}")
    return kind


def _one_of(kind: Kind, *wanted: type[Kind]) -> Kind:
    """Of a key that may hold either of several kinds, the wanted one: a type, or its fields where a path goes on."""
    if not isinstance(kind, Either):
        return kind
    return next((each for each in kind.kinds if isinstance(each, wanted)), kind)


def _known(kind: Kind, above: Sequence[str], trees: Sequence[Tree]) -> list[str]:
    if isinstance(kind, KeyMapping):
        return list(kind.keys)
    if isinstance(kind, Names | Instances):
        return list(dict.fromkeys(name for tree in trees for name in _children(tree, above)))
    return []


def _values(kind: Kind, path: Sequence[str], trees: Sequence[Tree]) -> Kind:
    """What stands under a name; an engine's keys follow from what its entry says in the first tree that has one."""
    if isinstance(kind, Instances):
        entries = (found.plain() for tree in trees if (found := at(tree, path)) is not None)
        sections = (kind.section_of(path[-1], each) for each in entries if isinstance(each, Mapping))
        return next((section for section in sections if section is not None), KeyMapping({}))
    assert isinstance(kind, Names)
    return kind.values


def _children(tree: Tree, path: Sequence[str]) -> list[str]:
    found = at(tree, path)
    return list(found.value) if found is not None and isinstance(found.value, Mapping) else []


def fault_of(value: Scalar, kind: Varied) -> str:
    """What is wrong with a value for a key; nothing if it may be right."""
    if isinstance(kind, Presence):
        return "" if isinstance(value, bool) else f"expected true or false, whether there is one, not {short(value)}"
    if isinstance(kind, TypeName):
        return _fault_of_type(value)
    if isinstance(kind, Word):
        if not isinstance(value, str) or (kind.choices and value not in kind.choices) or not kind.may_be(value):
            return f"{short(value)} is not {'one of ' + ', '.join(kind.choices) if kind.choices else 'a word for it'}"
        return ""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"expected an integer, not {short(value)}"
    if not kind.low <= value <= kind.high:
        return f"{value} is out of range; expected {kind.low} to {kind.high}"
    if kind.is_power_of_two and value & (value - 1):
        return f"{value} is not a power of two"
    return ""


def _fault_of_type(value: Scalar) -> str:
    try:
        parse_type(str(value))
    except IsaError as error:
        return str(error)
    return ""
