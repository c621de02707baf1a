"""The single changes of a machine that are tried: each key a step up and down, overlays, and what can go.

Which keys there are follows from the loader's tables: a number doubles and halves if it is a power of two or large, and
goes up and down by one otherwise; a word becomes each other choice; the type of a memory's elements becomes the next
wider and the next narrower one. An instruction goes as a whole, or stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from tilewright.isa.files.keys import EXTENDS, MACHINE_KEYS, SIZE, TEMPLATE
from tilewright.isa.files.laid_over import ENGINES, INSTRUCTIONS, laid_over
from tilewright.isa.files.loader import SPECS, extended_tree, read_overlay, shipped_machines
from tilewright.isa.files.machine_file import build_machine
from tilewright.isa.files.yaml_tree import parse_yaml
from tilewright.isa.key_kinds import Either, Instances, Key, KeyMapping, Names, TypeName, WholeNumber, Word
from tilewright.isa.language.numeric import FloatType, IntegerType, parse_type
from tilewright.isa.machine.machine import Machine

SMALL = 16
"""A number up to this that is no power of two goes up and down by one."""

TYPE_BITS = (2, 4, 8, 16, 24, 32, 40, 48)
"""How many bits the elements of a memory are tried with."""


class Way(StrEnum):
    """What a change does."""

    UP = "up"
    DOWN = "down"
    CHOICE = "choice"
    ON = "on"
    OFF = "off"
    WITHOUT = "without"


@dataclass(frozen=True)
class Change:
    """A change of a machine: what a file laid over it would say. `key` is empty for one of several keys.

    Of a key with a number, `kind` says which numbers it may have.
    """

    name: str
    way: Way
    over: Mapping[str, Any]
    key: str = ""
    kind: WholeNumber | None = None

    def apply(self, machine: Machine) -> Machine:
        """The changed machine. Raises IsaError where there can be none."""
        over = yaml.safe_dump({**self.over, "name": f"{machine.name}[{self.name}]"}, sort_keys=False)
        tree = laid_over(parse_yaml(machine.text, machine.name), parse_yaml(over, self.name))
        return build_machine(tree, machine.name)

    def beside(self, other: Change) -> Change:
        """Both changes at once."""
        return Change(f"{self.name}, {other.name}", Way.WITHOUT, _merged(self.over, other.over))


def steps(machine: Machine) -> list[Change]:
    """Each key of the machine a step up and down, and the sizes of array and lanes together."""
    found = list(_steps(yaml.safe_load(machine.text), MACHINE_KEYS, ()))
    return [*found, *_sizes_together(yaml.safe_load(machine.text))]


def next_step(change: Change) -> Change | None:
    """The same key one step further; None where there is none."""
    keys = change.key.split(".")
    value: Any = change.over
    for key in keys:
        value = value[key]
    assert change.kind is not None
    further = [each for each in _of_number(tuple(keys), value, change.kind) if each.way is change.way]
    return further[0] if further else None


def overlays(
    machine: Machine, isa: str | Path | None, given: Sequence[str | Path], with_shipped: bool = True
) -> list[Change]:
    """The given overlays on; also the shipped ones, and that in the machine's own file off. Raises IsaError.

    A shipped overlay is a machine's file that extends another one with instructions for the engines that are there: a
    second engine of each kind is a change of its own (engines.py). It takes along the overlays that it extends; those
    that the machine's own file extends are on already.
    """
    found = [Change(f"+{Path(name).stem}", Way.ON, read_overlay(name).plain()) for name in given]
    if not with_shipped:
        return found
    own = () if isa is None else _with_extended(Path(isa).stem)
    for name in shipped_machines():
        chain = _with_extended(name)
        if chain and name not in own and not _adds_engines(name):
            found.append(Change(f"+{name}", Way.ON, reduce(_merged, (read_overlay(each).plain() for each in chain))))
    return [*found, *(_off(machine, isa) if isa is not None else ())]


def each_instruction(machine: Machine) -> list[Change]:
    """The machine without each of its instructions, in their order; the key is `instructions.` and the mnemonic."""
    return [
        Change(f"without {name}", Way.WITHOUT, {INSTRUCTIONS: {name: None}}, f"{INSTRUCTIONS}.{name}")
        for name in machine.formats
    ]


def without_instructions(mnemonics: Sequence[str]) -> Change:
    """The machine without instructions."""
    count = len(mnemonics)
    name = f"without {mnemonics[0]}" if count == 1 else f"without {count} instructions"
    return Change(name, Way.WITHOUT, {INSTRUCTIONS: dict.fromkeys(mnemonics)})


# -- steps -------------------------------------------------------------------------------------------------------------


def _steps(facts: Mapping[str, Any], keys: Mapping[str, Key], above: tuple[str, ...]) -> Iterator[Change]:
    for name, value in facts.items():
        if name in keys and name != INSTRUCTIONS:
            yield from _of_kind((*above, name), value, keys[name])


def _of_kind(path: tuple[str, ...], value: Any, key: Key) -> Iterator[Change]:
    match key.kind:
        case WholeNumber():
            yield from _of_number(path, value, key.kind)
        case Word(choices=choices) if choices and not key.changes_values:
            for choice in choices:
                if choice != value:
                    yield Change(f"{'.'.join(path)} {value} → {choice}", Way.CHOICE, _nested(path, choice))
        case Either(kinds=kinds) if TypeName() in kinds and isinstance(value, str):
            yield from _of_type(path, parse_type(value))
        case KeyMapping(keys=keys):
            yield from _steps(value, keys, path)
        case Names(values=kind):
            for name, child in value.items():
                yield from _of_kind((*path, name), child, Key(kind, ""))
        case Instances():
            for name, child in value.items():
                if (section := key.kind.section_of(name, child)) is not None:
                    own = {key: of for key, of in section.keys.items() if of.kind is not TEMPLATE}
                    yield from _steps(child, own, (*path, name))
        case _:
            return


def _of_number(path: tuple[str, ...], value: Any, kind: WholeNumber) -> Iterator[Change]:
    """Nothing for an expression: it follows the keys that it names."""
    if not isinstance(value, int):
        return
    is_doubled = kind.is_power_of_two or value & (value - 1) == 0 or value > SMALL
    up, down = (2 * value, value // 2) if is_doubled else (value + 1, value - 1)
    for way, other in ((Way.UP, up), (Way.DOWN, down)):
        if kind.low <= other <= kind.high:
            key = ".".join(path)
            yield Change(f"{key} {value} → {other}", way, _nested(path, other), key, kind)


def _of_type(path: tuple[str, ...], type_: IntegerType) -> Iterator[Change]:
    """Nothing for floats, which have no next ones."""
    if isinstance(type_, FloatType):
        return
    narrower = [bits for bits in TYPE_BITS if bits < type_.bits][-1:]
    wider = [bits for bits in TYPE_BITS if bits > type_.bits][:1]
    for way, found in ((Way.UP, wider), (Way.DOWN, narrower)):
        for bits in found:
            other = IntegerType(bits, type_.is_signed)
            key = ".".join(path)
            yield Change(f"{key} {type_} → {other}", way, _nested(path, str(other)), key)


def _sizes_together(facts: Mapping[str, Any]) -> Iterator[Change]:
    """All that says how many elements stand side by side, doubled and halved at once: each alone may not be allowed."""
    paths = [tuple(name.split(".")) for name, value in _sizes(facts, MACHINE_KEYS, ())]
    values = dict(_sizes(facts, MACHINE_KEYS, ()))
    for way, (times, over) in {Way.UP: (2, 1), Way.DOWN: (1, 2)}.items():
        nested: dict[str, Any] = {}
        for path in paths:
            nested = _merged(nested, _nested(path, values[".".join(path)] * times // over))
        changed = ", ".join(".".join(path) for path in paths)
        yield Change(f"{changed} {'× 2' if way is Way.UP else '÷ 2'}", way, nested)


def _sizes(facts: Mapping[str, Any], keys: Mapping[str, Key], above: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name, value in facts.items():
        key = keys.get(name)
        if key is not None and key.kind is SIZE and isinstance(value, int):
            yield ".".join((*above, name)), value
        elif key is not None and isinstance(key.kind, KeyMapping):
            yield from _sizes(value, key.kind.keys, (*above, name))


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(one)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _merged(found[key], value) if both else value
    return found


# -- overlays ----------------------------------------------------------------------------------------------------------


def _with_extended(name: str) -> tuple[str, ...]:
    """The shipped overlay of a name and those that it extends, itself last; none for another machine."""
    path = SPECS / f"{name}.yaml"
    if not path.is_file() or not _is_overlay(path):
        return ()
    return (*_with_extended(str(parse_yaml(path.read_text(), path.name).plain()[EXTENDS])), name)


def _is_overlay(path: Path) -> bool:
    """Whether a file only adds to what it extends: one that takes engines away is another machine."""
    tree = parse_yaml(path.read_text(), path.name).plain()
    return EXTENDS in tree and INSTRUCTIONS in tree and None not in tree.get(ENGINES, {}).values()


def _adds_engines(name: str) -> bool:
    """Whether a shipped overlay has engines that are not in what it extends."""
    return not set(read_overlay(name).plain().get(ENGINES, {})) <= set(extended_tree(name).plain()[ENGINES])


def _off(machine: Machine, isa: str | Path) -> Iterator[Change]:
    """Without the instructions and engines that the machine's own file adds to what it extends."""
    path = Path(isa) if Path(isa).suffix in (".yaml", ".yml") else SPECS / f"{isa}.yaml"
    if not _is_overlay(path):
        return
    own = read_overlay(isa).plain()
    extended, over = extended_tree(isa).plain(), {}
    for section, there in ((ENGINES, machine.engines), (INSTRUCTIONS, machine.formats)):
        added = [name for name in own.get(section, {}) if name in there and name not in extended[section]]
        if added:
            over[section] = dict.fromkeys(added)
    if over:
        yield Change(f"-{path.stem}", Way.OFF, over)
