"""The `engines` section of a machine file: entries become engines, each an instance of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import assert_never

from tilewright.isa.errors import did_you_mean
from tilewright.isa.files.keys import (
    ENGINE_SECTIONS,
    OFF_CHIP,
    TEMPLATE,
    USUAL_DMA,
    USUAL_KINDS,
    EngineKind,
    direction_of,
)
from tilewright.isa.files.reader import Reader
from tilewright.isa.files.yaml_tree import Tree
from tilewright.isa.machine.engine import Direction, Dma, Engine, Settings, Systolic, Template, Vector
from tilewright.isa.machine.memory import DRAM

PATH = "engines"


class EngineReader:
    """Reads engines one by one, noting complaints in the shared reader; `places` are the memories there are."""

    def __init__(self, reader: Reader, places: Sequence[str]) -> None:
        self._reader = reader
        self._places = places

    def read(self, tree: Tree | None, array: Systolic, lanes: int) -> dict[str, Engine]:
        """Every engine whose template is known, in file order; the sizes are the machine's own."""
        engines: dict[str, Engine] = {}
        for name, child in self._reader.open_mapping(tree, PATH).items():
            kind = self._kind(name, child)
            if kind is not None:
                engines[name] = self._engine(name, len(engines), kind, child, array, lanes)
        if tree is not None and isinstance(tree.value, Mapping):
            self._check_kinds(tree, engines)
        return engines

    def _kind(self, name: str, tree: Tree) -> EngineKind | None:
        """The kind that an entry says, or that is usual for its name."""
        said = tree.value.get("template") if isinstance(tree.value, Mapping) else None
        if said is None:
            if name not in USUAL_KINDS:
                hint = did_you_mean(name, list(USUAL_KINDS))
                message = f"the key 'template' is missing{hint}; expected {', '.join(TEMPLATE.choices)}"
                self._reader.complain(tree.where, f"{PATH}.{name}", message)
            return USUAL_KINDS.get(name)
        path, word = f"{PATH}.{name}.template", self._reader.word(said, f"{PATH}.{name}.template")
        if word in TEMPLATE.choices:
            template = Template(word)
            return EngineKind(template, _direction(tree) if template is Template.DMA else None)
        hint = did_you_mean(word, TEMPLATE.choices)
        self._reader.complain(
            said.where, path, f"unknown template {word!r}{hint}; expected {', '.join(TEMPLATE.choices)}"
        )
        return None

    def _engine(self, name: str, number: int, kind: EngineKind, tree: Tree, array: Systolic, lanes: int) -> Engine:
        path, known = f"{PATH}.{name}", ENGINE_SECTIONS[kind].keys
        keys = self._reader.mapping(tree, path, known)
        queue = self._reader.number(keys, path, "queue", known)
        reach = {key: self._reader.words(keys.get(key), f"{path}.{key}", self._places) for key in ("reads", "writes")}
        for key, reached in reach.items():
            if key not in keys:
                continue
            if known[key].kind == OFF_CHIP and reached != (DRAM,):
                self._reader.complain(keys[key].where, f"{path}.{key}", f"the {name} engine {key} exactly [dram]")
            if known[key].kind != OFF_CHIP and DRAM in reached:
                message = f"the {name} engine's {key} are on chip, not dram"
                self._reader.complain(keys[key].where, f"{path}.{key}", message)
        return Engine(name, number, queue, **reach, settings=self._settings(kind, keys, path, array, lanes))

    def _settings(self, kind: EngineKind, keys: Mapping[str, Tree], path: str, array: Systolic, lanes: int) -> Settings:
        """What a template has sizes of, as the file says or as usual."""
        known = ENGINE_SECTIONS[kind].keys
        match kind.template:
            case Template.DMA:
                assert kind.direction is not None
                usual = asdict(USUAL_DMA[kind.direction])
                usual.pop("direction")
                limits = {key: self._reader.number_or(n, keys, path, key, known) for key, n in usual.items()}
                return Dma(kind.direction, **limits)
            case Template.SYSTOLIC:
                return array
            case Template.VECTOR:
                results = self._reader.number(keys, path, "results", known) if "results" in keys else None
                return Vector(lanes, results)
            case _:
                assert_never(kind.template)

    def _check_kinds(self, tree: Tree, engines: Mapping[str, Engine]) -> None:
        """A machine has one engine of each kind."""
        for kind in ENGINE_SECTIONS:
            found = [engine.name for engine in engines.values() if kind == _kind_of(engine)]
            if not found:
                usual = [name for name, other in USUAL_KINDS.items() if other == kind]
                self._reader.complain(tree.where, PATH, f"the key {usual[0]!r} is missing: a {kind}")
            elif len(found) > 1:
                message = f"expected one {kind}, not {len(found)}: {', '.join(found)}"
                self._reader.complain(tree.where, PATH, message)


def _direction(tree: Tree) -> Direction:
    """That of a DMA engine: which of its ends is dram."""
    writes = tree.value.get("writes") if isinstance(tree.value, Mapping) else None
    words = [item.value for item in writes.value] if writes is not None and isinstance(writes.value, tuple) else []
    return direction_of(words == [DRAM])


def _kind_of(engine: Engine) -> EngineKind:
    return EngineKind(engine.template, engine.settings.direction if isinstance(engine.settings, Dma) else None)
