"""The `engines` section of a machine file: entries become engines, each an instance of its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.isa.errors import did_you_mean
from tilewright.isa.files.keys import ENGINE_SECTIONS, ENGINES, OFF_CHIP, TEMPLATE, USUAL_KINDS
from tilewright.isa.files.reader import ValueReader
from tilewright.isa.files.yaml_tree import Tree
from tilewright.isa.key_kinds import EngineKind
from tilewright.isa.machine.engine import MOST_ENGINES, Engine, Systolic
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.templates.table import facet_of

PATH = "engines"


class EngineReader:
    """Reads engines one by one, noting complaints in the shared reader; `places` are the memories there are."""

    def __init__(self, reader: ValueReader, places: Sequence[str], pipeline: Pipeline) -> None:
        self._reader = reader
        self._places = places
        self._pipeline = pipeline

    def read(self, tree: Tree | None, array: Systolic | None, lanes: int) -> dict[str, Engine]:
        """Every engine whose template is known, in file order; the sizes are the machine's own."""
        engines: dict[str, Engine] = {}
        kinds: dict[str, EngineKind] = {}
        for name, child in self._reader.open_mapping(tree, PATH).items():
            kind = self._kind(name, child)
            if kind is not None:
                kinds[name] = kind
                engine = self._engine(name, len(engines), kind, child, array, lanes)
                if engine is not None:
                    engines[name] = engine
        if tree is not None and isinstance(tree.value, Mapping):
            self._check_kinds(tree, kinds)
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
        kind = ENGINES.kind_of(word, _writes_dram(tree))
        if kind is not None:
            return kind
        hint = did_you_mean(word, TEMPLATE.choices)
        self._reader.complain(
            said.where, path, f"unknown template {word!r}{hint}; expected {', '.join(TEMPLATE.choices)}"
        )
        return None

    def _engine(
        self, name: str, number: int, kind: EngineKind, tree: Tree, array: Systolic | None, lanes: int
    ) -> Engine | None:
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
        facet = facet_of(kind.template)
        own = [key for key in facet.keys(kind.direction) if key in keys]
        said = {key: self._reader.number(keys, path, key, known) for key in own}
        settings = facet.settings(kind.direction, said, array, lanes)
        if settings is None:
            missing = " and ".join(key for key in facet.keys(kind.direction) if key not in said)
            self._reader.complain(tree.where, path, f"says no {missing}, and the machine has no `array` that says it")
            return None
        self._check_multiples(keys, path, said, lanes)
        self._check_lanes(keys, path, said, lanes)
        if isinstance(settings, Systolic):
            settings = replace(settings, pipeline=self._pipeline)
        return Engine(name, number, queue, **reach, settings=settings, pipeline=self._pipeline)

    def _check_multiples(self, keys: Mapping[str, Tree], path: str, said: Mapping[str, int], lanes: int) -> None:
        for side in ("rows", "cols"):
            if said.get(side, 0) % lanes:
                message = f"{said[side]} is not a multiple of lanes = {lanes}"
                self._reader.complain(keys[side].where, f"{path}.{side}", message)

    def _check_lanes(self, keys: Mapping[str, Tree], path: str, said: Mapping[str, int], lanes: int) -> None:
        """Of those of its own, as many as make whole words."""
        own = said.get("lanes", lanes)
        if "lanes" in keys and lanes % own:
            divisors = ", ".join(str(count) for count in range(1, lanes + 1) if lanes % count == 0)
            message = f"{own} lanes do not divide words of lanes = {lanes} elements; expected one of {divisors}"
            self._reader.complain(keys["lanes"].where, f"{path}.lanes", message)

    def _check_kinds(self, tree: Tree, kinds: Mapping[str, EngineKind]) -> None:
        """Words come from DRAM and go there, so that a machine has engines for both; of the others, any number."""
        for kind in ENGINE_SECTIONS:
            found = [name for name, other in kinds.items() if kind == other]
            usual = [name for name, other in USUAL_KINDS.items() if other == kind]
            if kind.direction is not None and not found:
                self._reader.complain(tree.where, PATH, f"the key {usual[0]!r} is missing: a {kind}")
        if len(kinds) > MOST_ENGINES:
            message = f"has {len(kinds)} engines; expected at most {MOST_ENGINES}, each with a wait count in every word"
            self._reader.complain(tree.where, PATH, message)


def _writes_dram(tree: Tree) -> bool:
    """Whether that is all that an entry says its engine writes."""
    writes = tree.value.get("writes") if isinstance(tree.value, Mapping) else None
    return writes is not None and isinstance(writes.value, tuple) and [item.value for item in writes.value] == [DRAM]
