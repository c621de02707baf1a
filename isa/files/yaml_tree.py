"""YAML as a tree that remembers the place of every value; `extends`, merge keys and overrides work on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tilewright.isa.errors import IsaError, did_you_mean, short

MAX_NODES = 20_000
"""The most values of a machine file, with aliases resolved. A file with more is an attack, not a machine."""

MAX_FILE_CHARACTERS = 1 << 18
"""The longest machine file; the shipped ones have a few thousand characters."""

MAX_FILE_BYTES = 4 * MAX_FILE_CHARACTERS
"""What they take in UTF-8 at most."""

MAX_NUMBER_BITS = 64
"""The most bits of a number in a machine file; none needs more."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        is_file = not self.file.startswith("--set ")
        return f"{self.file}:{self.line}:{self.column}" if is_file else self.file


@dataclass(frozen=True, slots=True)
class Tree:
    """A value of a YAML file: a mapping of trees, a list of trees or a scalar."""

    value: Mapping[str, Tree] | tuple[Tree, ...] | Scalar
    where: Where

    def plain(self) -> Any:
        """The value without its places, as dicts, lists and scalars."""
        if isinstance(self.value, Mapping):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, tuple):
            return [child.plain() for child in self.value]
        return self.value

    @property
    def kind(self) -> str:
        """What came, for messages."""
        match self.value:
            case Mapping():
                return "a mapping"
            case tuple():
                return "a list"
            case None:
                return "nothing"
            case _:
                return short(self.value)


class PlacedError(IsaError):
    """What is wrong at a place of a file."""

    def __init__(self, where: Where, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


def parse_yaml(text: str, file: str) -> Tree:
    """Read one YAML document; raises IsaError, with the place of a syntax error, a repeated key or an explosion."""
    if len(text) > MAX_FILE_CHARACTERS:
        raise IsaError(f"{file}: has {len(text)} characters; expected at most {MAX_FILE_CHARACTERS}, a machine file")
    try:
        root = _root(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Where(file, mark.line + 1, mark.column + 1) if mark else Where(file, 1, 1)
        problem = str(error.problem or error.context)
        hint = " (inside { } a value with [ ] in it needs quotes)" if problem.endswith("but got '['") else ""
        raise PlacedError(place, f"not YAML: {problem}{hint}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        is_deep = isinstance(error, RecursionError)
        first_line = "nested too deeply" if is_deep else str(error).partition("\n")[0]
        raise IsaError(f"{file}: not YAML: {first_line}") from error
    if root is None:
        raise IsaError(f"{file}: is empty; expected a machine description")
    return _TreeReader(file).tree(root, ())


def _root(text: str) -> yaml.Node | None:
    """The document's node, read by LibYAML where PyYAML has it, in a tenth of the time. What that refuses is read by
    PyYAML itself, whose errors are what users know.
    """
    for kind in (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader):
        loader = kind(text)
        try:
            root: yaml.Node | None = loader.get_single_node()
            return root
        except (yaml.YAMLError, RecursionError, ValueError):
            if kind is yaml.SafeLoader:
                raise
        finally:
            loader.dispose()
    raise AssertionError


class _TreeReader:
    """Turns yaml's nodes into trees, counting them."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0
        self._constructor = yaml.constructor.SafeConstructor()

    def tree(self, node: yaml.Node, above: tuple[int, ...]) -> Tree:
        where = Where(self._file, node.start_mark.line + 1, node.start_mark.column + 1)
        self._count += 1
        if self._count > MAX_NODES:
            raise PlacedError(where, f"more than {MAX_NODES} values once aliases are followed; expected a machine file")
        if id(node) in above or len(above) > 50:
            raise PlacedError(where, "an alias contains itself, or values are nested deeper than 50")
        inner = (*above, id(node))
        if not isinstance(node, yaml.ScalarNode) and _tag_word(node) not in ("map", "seq"):
            raise PlacedError(where, f"the tag {short(node.tag)} has no meaning here")
        match node:
            case yaml.MappingNode():
                return Tree(self._mapping(node, inner), where)
            case yaml.SequenceNode():
                return Tree(tuple(self.tree(child, inner) for child in node.value), where)
            case yaml.ScalarNode():
                return Tree(self._scalar(node, where), where)
            case _:
                raise AssertionError(node)

    def _mapping(self, node: yaml.MappingNode, above: tuple[int, ...]) -> dict[str, Tree]:
        merged: dict[str, Tree] = {}
        own: dict[str, Tree] = {}
        for key_node, value_node in node.value:
            where = Where(self._file, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                raise PlacedError(where, "a key must be a word")
            if key_node.tag == "tag:yaml.org,2002:merge":
                for base in self._merge_bases(self.tree(value_node, above)):
                    merged = {**base, **merged}
            elif key_node.value in own:
                raise PlacedError(where, f"the key {key_node.value!r} appears twice; keep one")
            else:
                child = self.tree(value_node, above)
                own[key_node.value] = Tree(child.value, where if child.value is None else child.where)
        return {**merged, **own}

    def _merge_bases(self, tree: Tree) -> Iterator[Mapping[str, Tree]]:
        for base in tree.value if isinstance(tree.value, tuple) else (tree,):
            if not isinstance(base.value, Mapping):
                raise PlacedError(base.where, f"`<<` takes a mapping, not {base.kind}")
            yield base.value

    def _scalar(self, node: yaml.ScalarNode, where: Where) -> Scalar:
        kind = _tag_word(node)
        try:
            match kind:
                case "int":
                    if ":" in node.value or re.fullmatch("[-+]?0[0-9_]+", node.value):
                        raise PlacedError(where, f"{short(node.value)} is base 60 or 8 in YAML 1.1; write it plainly")
                    number = int(self._constructor.construct_yaml_int(node))
                case "float":
                    return float(self._constructor.construct_yaml_float(node))
                case "bool":
                    return bool(self._constructor.construct_yaml_bool(node))
                case "null":
                    return None
                case "str" | "timestamp":
                    return str(node.value)
                case _:
                    raise PlacedError(where, f"the tag {short(node.tag)} has no meaning here")
        except (ValueError, KeyError, OverflowError) as error:
            raise PlacedError(where, f"{short(node.value)} is no {_NOUNS[kind]}") from error
        if number.bit_length() > MAX_NUMBER_BITS:
            raise PlacedError(where, f"{short(node.value)} is too large; expected at most {MAX_NUMBER_BITS} bits")
        return number


_NOUNS = {"int": "integer", "float": "number", "bool": "true or false"}


def _tag_word(node: yaml.Node) -> str:
    """`int` of the tag `tag:yaml.org,2002:int`; nothing of a tag that is not YAML's own."""
    prefix, _, word = str(node.tag).rpartition("tag:yaml.org,2002:")
    return word if not prefix else ""


def at(tree: Tree, path: Sequence[str]) -> Tree | None:
    """What stands at a path of a tree, if anything."""
    for part in path:
        if not isinstance(tree.value, Mapping) or part not in tree.value:
            return None
        tree = tree.value[part]
    return tree


def merge(base: Tree, over: Tree) -> Tree:
    """`base` with the keys of `over` on top, mapping by mapping; a key set to nothing (null) is removed."""
    if not isinstance(base.value, Mapping) or not isinstance(over.value, Mapping):
        return over
    merged = dict(base.value)
    for key, child in over.value.items():
        if child.value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged[key], child) if key in merged else child
    return Tree(merged, over.where)


def setting(text: str) -> tuple[list[str], Tree]:
    """Path and value of a setting such as `memories.act.kib=128`; nothing after `=` is null. Raises IsaError."""
    path, equals, value = text.partition("=")
    if not equals:
        raise IsaError(f"--set {text}: expected key.path=value")
    return path.split("."), parse_yaml(value or "null", f"--set {text}")


def apply_override(tree: Tree, path: list[str], value: Tree, text: str) -> Tree:
    """The tree with a value at a path, which must exist; null removes the key. `text` is the setting, for messages."""
    return _replace(tree, path, value, text, ())


def _replace(tree: Tree, keys: list[str], value: Tree, setting: str, above: tuple[str, ...]) -> Tree:
    children = tree.value if isinstance(tree.value, Mapping) else {}
    key = keys[0]
    if key not in children:
        place = ".".join(above) or "the machine"
        known = ", ".join(".".join((*above, k)) for k in children) or "nothing below it"
        raise IsaError(f"--set {setting}: {place} has no {key!r}{did_you_mean(key, list(children))}; it has: {known}")
    replaced = dict(children)
    if len(keys) > 1:
        replaced[key] = _replace(children[key], keys[1:], value, setting, (*above, key))
    elif value.value is None:
        del replaced[key]
    else:
        replaced[key] = value
    return Tree(replaced, tree.where)
