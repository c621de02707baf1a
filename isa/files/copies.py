"""The `copies` section of a machine file: engines that are as another one is, with memories of their own.

Example: `mma2: {of: mma, memories: {wgt: wgt2, acc: acc2}}` adds the engine `mma2` and the memories `wgt2` and `acc2`.
Who reaches `wgt` reaches `wgt2`, too. And each instruction that `mma` runs, or that names `wgt` or `acc`, is there a
second time, for these: `load_wgt_mma2`, `mma_mma2`, `requantize_mma2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.isa.errors import did_you_mean
from tilewright.isa.files.keys import COPY_KEYS, USUAL_KINDS
from tilewright.isa.files.reader import ValueReader
from tilewright.isa.files.yaml_tree import Tree

PATH = "copies"

MEMORIES, ENGINES, INSTRUCTIONS = "memories", "engines", "instructions"

Trees = Mapping[str, Tree]


def with_copies(reader: ValueReader, top: Trees) -> Trees:
    """The sections of a machine file with what `copies` adds to them, behind all else; notes what is wrong with it."""
    sections = {key: top[key] for key in (MEMORIES, ENGINES, INSTRUCTIONS) if key in top}
    if PATH not in top or len(sections) < 3 or not all(isinstance(tree.value, Mapping) for tree in sections.values()):
        return top
    for name, child in reader.open_mapping(top[PATH], PATH).items():
        copy = _read(reader, _children(sections[ENGINES]), _children(sections[MEMORIES]), name, child)
        if copy is not None:
            sections = {
                MEMORIES: _with_memories(sections[MEMORIES], copy),
                ENGINES: _with_engine(sections[ENGINES], copy),
                INSTRUCTIONS: _with_instructions(sections[INSTRUCTIONS], copy),
            }
    return {**top, **sections}


@dataclass(frozen=True, slots=True)
class _Copy:
    """An engine that is as another one (`of`); `memories`: its own by the names of those in whose place they are."""

    name: str
    of: str
    memories: Mapping[str, str]

    def renamed(self, operands: Tree) -> Tree:
        """Operands in the copy's own memories: `rows * wgt[n, k]` → `rows * wgt2[n, k]`."""
        names = "|".join(map(re.escape, self.memories))
        found = {}
        for name, operand in _children(operands).items():
            text = re.sub(rf"\b({names})\b(?=\s*(\[|$))", lambda name: self.memories[name[1]], str(operand.value))
            found[name] = Tree(text, operand.where) if isinstance(operand.value, str) else operand
        return Tree(found, operands.where) if isinstance(operands.value, Mapping) else operands


def _children(tree: Tree | None) -> Trees:
    return tree.value if tree is not None and isinstance(tree.value, Mapping) else {}


def _items(tree: Tree) -> tuple[Tree, ...]:
    return tree.value if isinstance(tree.value, tuple) else ()


def _read(reader: ValueReader, engines: Trees, memories: Trees, name: str, tree: Tree) -> _Copy | None:
    """A copy as the file says it; None if something is wrong with it."""
    before, path = reader.complaint_count, f"{PATH}.{name}"
    keys = reader.mapping(tree, path, COPY_KEYS)
    of = reader.word(keys.get("of"), f"{path}.of")
    own = {
        original: reader.word(child, f"{path}.memories.{original}")
        for original, child in reader.open_mapping(keys.get("memories"), f"{path}.memories").items()
    }
    if reader.complaint_count > before:
        return None
    if of not in engines:
        hint = did_you_mean(of, list(engines))
        reader.complain(keys["of"].where, f"{path}.of", f"unknown engine {of!r}{hint}; expected {', '.join(engines)}")
        return None
    if name in engines:
        reader.complain(tree.where, path, f"there is an engine {name} already; give the copy another name")
    where = keys["memories"].where
    if not own:
        message = f"expected the memories of its own; an engine that shares all of them is listed beside {of}"
        reader.complain(where, f"{path}.memories", message)
    reached = [str(item.value) for key in ("reads", "writes") for item in _items(_children(engines[of])[key])]
    taken = set(memories)
    for original, new in own.items():
        if original not in reached or original not in memories:
            message = f"{of} does not reach {original}; expected some of {', '.join(reached)}"
            reader.complain(where, f"{path}.memories", message)
        if new in taken:
            reader.complain(where, f"{path}.memories", f"there is a memory {new} already; expected a new name")
        taken.add(new)
    return _Copy(name, of, own) if reader.complaint_count == before else None


def _with_memories(tree: Tree, copy: _Copy) -> Tree:
    memories = _children(tree)
    return Tree({**memories, **{new: memories[original] for original, new in copy.memories.items()}}, tree.where)


def _with_engine(tree: Tree, copy: _Copy) -> Tree:
    """The engines, which reach the copies of the memories that they reach, and the copy, which reaches its own."""
    engines = _children(tree)
    found = {name: engine if name == copy.of else _reaching(engine, copy, False) for name, engine in engines.items()}
    own = _reaching(engines[copy.of], copy, True)
    if copy.of in USUAL_KINDS and "template" not in _children(own):
        template = Tree(USUAL_KINDS[copy.of].template.value, own.where)
        own = Tree({"template": template, **_children(own)}, own.where)
    return Tree({**found, copy.name: own}, tree.where)


def _reaching(engine: Tree, copy: _Copy, is_own: bool) -> Tree:
    """An entry of an engine that reaches the copy's memories: in place of those that they are copies of, or beside."""
    keys = dict(_children(engine))
    for key in ("reads", "writes"):
        words: list[Tree] = []
        for item in _items(keys[key]) if key in keys else ():
            new = copy.memories.get(str(item.value))
            words += [] if is_own and new is not None else [item]
            words += [] if new is None else [Tree(new, item.where)]
        if words:
            keys[key] = Tree(tuple(words), keys[key].where)
    return Tree(keys, engine.where) if isinstance(engine.value, Mapping) else engine


def _with_instructions(tree: Tree, copy: _Copy) -> Tree:
    """The instructions, and once more those that name what the copy has of its own."""
    added: dict[str, Tree] = {}
    for name, instruction in _children(tree).items():
        keys = {key: child for key, child in _children(instruction).items() if key != "opcode"}
        moved: dict[str, Tree] = {key: copy.renamed(keys[key]) for key in ("from", "to") if key in keys}
        is_of = "engine" in keys and keys["engine"].value == copy.of
        if is_of:
            moved["engine"] = Tree(copy.name, keys["engine"].where)
        if is_of or any(moved[key] != keys[key] for key in moved):
            added[f"{name}_{copy.name}"] = Tree({**keys, **moved}, instruction.where)
    return Tree({**_children(tree), **added}, tree.where)
