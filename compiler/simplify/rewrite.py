"""Rewriting: apply tables of small rules until none applies, then drop what nobody reads.

A rule looks at one operator and what surrounds it and returns what takes its place, or None. It never changes
anything itself. The replacement computes the same outputs; `aliases` has those that are called otherwise from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import RAISING, Blame, CompileError
from tilewright.compiler.graph.graph import Attribute, Graph, Operator, TensorType, fresh_name
from tilewright.compiler.session import Session

FIRST_VALUES = 64
"""Constants are compared by so many values first: few that differ have these in common."""

COMMUTATIVE = ("onnx.Add", "onnx.Mul", "onnx.Max", "onnx.Min", "add", "mul", "maximum", "minimum")
"""Operators whose operands may stand in any order."""

MAX_SWEEPS = 1000
"""Far more sweeps than any graph needs. This is reached only if two rules undo each other."""


@dataclass(frozen=True)
class Replacement:
    """What takes an operator's place: operators in order, types and constants that are new or changed."""

    operators: tuple[Operator, ...] = ()
    tensors: Mapping[str, TensorType] = field(default_factory=dict)
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)  # output of the operator → the tensor that it is


def joined(first: Replacement, second: Replacement) -> Replacement:
    """Both replacements, the first's operators first."""
    return Replacement(
        (*first.operators, *second.operators),
        {**first.tensors, **second.tensors},
        {**first.constants, **second.constants},
        {**first.aliases, **second.aliases},
    )


class GraphView:
    """What a rule may ask about the graph around an operator. Everything before the operator is up to date."""

    def __init__(self, graph: Graph, session: Session | None = None) -> None:
        self.session = session or Session()
        self.opset = graph.opset
        self.inputs = frozenset(graph.inputs)
        self.outputs = frozenset(graph.outputs.values())
        self._types = dict(graph.tensors)
        self._constants = dict(graph.constants)
        self._producers = dict(graph.producers)
        self._uses = dict(graph.uses)
        self._users: dict[str, list[Operator]] = {}
        for operator in graph.operators:
            for name in operator.inputs:
                self._users.setdefault(name, []).append(operator)

    def type(self, name: str) -> TensorType:
        return self._types[name]

    def constant(self, name: str) -> NDArray[Any] | None:
        """The value of a constant tensor; None for others."""
        return self._constants.get(name)

    def producer(self, name: str, *kinds: str) -> Operator | None:
        """The operator that computes a tensor, if it is one of these kinds (any kind if none is named)."""
        found = self._producers.get(name)
        return found if found is not None and (not kinds or found.kind in kinds) else None

    def users(self, name: str) -> list[Operator]:
        """The operators that read a tensor, as they were before this sweep."""
        return self._users.get(name, [])

    def is_read_once(self, name: str) -> bool:
        """True when one operator, once, reads a tensor. It may still be False for a while after other readers went."""
        return self._uses.get(name, 0) == 1

    def fresh(self, name: str) -> str:
        """A name that no tensor has yet, made from the given one."""
        return fresh_name(name, self._types)

    def _accept(self, change: Replacement) -> None:
        self._types |= change.tensors
        self._constants |= change.constants
        for operator in change.operators:
            for name in operator.inputs:
                self._uses[name] = self._uses.get(name, 0) + 1
            for name in operator.outputs:
                self._producers[name] = operator


Rule = Callable[[Operator, GraphView], Replacement | None]
Rules = Mapping[str, tuple[Rule, ...]]
"""Operator kind → its rules, tried in order; those of `*` are tried on every operator, after its own."""


def merged(tables: Sequence[Rules]) -> Rules:
    """One table that tries the rules of each operator kind in the tables' order."""
    kinds = dict.fromkeys(kind for table in tables for kind in table)
    return {kind: tuple(rule for table in tables for rule in table.get(kind, ())) for kind in kinds}


def rewrite(graph: Graph, rules: Rules, blame: Blame = RAISING, session: Session | None = None) -> Graph:
    """The graph to which no rule applies any more, without dead code."""
    session = session or Session()
    for _ in range(MAX_SWEEPS):
        graph = drop_dead_code(graph)
        changed = _sweep(graph, rules, blame, session)
        if changed is None:
            return graph
        graph = changed
    raise CompileError(graph.name, "simplification does not come to an end")


def _sweep(graph: Graph, rules: Rules, blame: Blame, session: Session) -> Graph | None:
    """Try the rules once on every operator, in order; None when none applied."""
    view = GraphView(graph, session)
    aliases: dict[str, str] = {}
    kept: list[Operator] = []
    is_changed = False
    for operator in graph.operators:
        renamed = _renamed(operator, aliases)
        if renamed is not operator:
            operator = renamed
            view._accept(Replacement((operator,)))
        change = None
        with blame.on(operator.nodes):
            change = _first_match(operator, view, rules)
        if change is None:
            kept.append(operator)
            continue
        is_changed = True
        view._accept(change)
        kept += change.operators
        aliases |= change.aliases
    if not is_changed:
        return None
    outputs = {name: aliases.get(tensor, tensor) for name, tensor in graph.outputs.items()}
    return replace(
        graph, operators=tuple(kept), tensors=view._types, constants=view._constants, outputs=outputs
    )  # fmt: skip


def _renamed(operator: Operator, aliases: Mapping[str, str]) -> Operator:
    """The operator with other tensors in place of its inputs; itself where there are none."""
    if aliases.keys().isdisjoint(operator.inputs):
        return operator
    return replace(operator, inputs=tuple([aliases.get(name, name) for name in operator.inputs]))


def _first_match(operator: Operator, view: GraphView, rules: Rules) -> Replacement | None:
    for rule in (*rules.get(operator.kind, ()), *rules.get("*", ())):
        change = rule(operator, view)
        if change is not None:
            return change
    return None


def drop_dead_code(graph: Graph) -> Graph:
    """The graph without operators, constants and types that no output depends on. Inputs stay."""
    live = set(graph.outputs.values())
    kept = []
    for operator in reversed(graph.operators):
        if live.intersection(operator.outputs):
            live.update(operator.inputs)
            kept.append(operator)
    kept.reverse()
    named = live.union(graph.inputs, *(operator.outputs for operator in kept))
    return replace(
        graph,
        operators=tuple(kept),
        tensors={name: tensor_type for name, tensor_type in graph.tensors.items() if name in named},
        constants={name: value for name, value in graph.constants.items() if name in live},
    )


def merge_equal_operators(graph: Graph) -> Graph:
    """The graph in which no two operators compute the same from the same tensors (common subexpressions).

    Equal constants count as the same tensor. Those of the operators that stay keep their names.
    """
    known: dict[Hashable, Operator] = {}
    equal = equal_constants(graph)
    aliases: dict[str, str] = {}
    kept = []
    for operator in graph.operators:
        operator = _renamed(operator, aliases)
        first = known.setdefault(_meaning(_renamed(operator, equal), graph), operator)
        if first is operator:
            kept.append(operator)
        else:
            aliases |= zip(operator.outputs, first.outputs, strict=True)
    outputs = {name: aliases.get(tensor, tensor) for name, tensor in graph.outputs.items()}
    return drop_dead_code(replace(graph, operators=tuple(kept), outputs=outputs))


def equal_constants(graph: Graph) -> dict[str, str]:
    """Constant → the first one of the same type and values, if that is another."""
    groups: dict[Hashable, list[str]] = {}
    for name, value in graph.constants.items():
        groups.setdefault((graph.tensors[name], value.ravel()[:FIRST_VALUES].tobytes()), []).append(name)
    equal: dict[str, str] = {}
    for names in (names for names in groups.values() if len(names) > 1):
        firsts: dict[bytes, str] = {}
        for name in names:
            first = firsts.setdefault(graph.constants[name].tobytes(), name)
            if first != name:
                equal[name] = first
    return equal


def _meaning(operator: Operator, graph: Graph) -> Hashable:
    """Equal for operators that compute the same."""
    attributes = tuple(sorted((key, _comparable(value)) for key, value in operator.attributes.items()))
    types = tuple(graph.tensors.get(name) for name in operator.outputs)
    inputs = tuple(sorted(operator.inputs)) if operator.kind in COMMUTATIVE else operator.inputs
    return operator.kind, inputs, attributes, types


def _comparable(value: Attribute) -> Hashable:
    """An attribute as a value that is equal for equal attributes; what is neither plain nor an array is its own."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value if isinstance(value, int | float | str | tuple) else id(value)
