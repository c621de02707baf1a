"""Asks the compiler about a part of a network: what it makes of it, or why each node at fault cannot be done.

The passes are those that compile. They go on after each error that is of a node, so that all are known at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import onnx

from tilewright.compiler.errors import Blame, CompileError, FatalError
from tilewright.compiler.fitting import Covered
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.options import Options
from tilewright.compiler.partition.parts import Part, part_graph, part_nodes, whole_network
from tilewright.compiler.partition.source import Source, read_source
from tilewright.compiler.pipeline import cover_graph
from tilewright.compiler.running import Keep
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.canonical import CANONICALIZE
from tilewright.compiler.simplify.check import QUANTIZERS
from tilewright.compiler.simplify.microsoft import WRITTEN
from tilewright.compiler.simplify.steps import simplify_graph
from tilewright.compiler.simplify.tables import FUNCTIONS
from tilewright.isa.machine.machine import Machine

Made = TypeVar("Made")


@dataclass(frozen=True)
class Answer(Generic[Made]):
    """What passes made of a part; if nothing, the error that the compiler stops at, and that of each node at fault."""

    made: Made | None
    error: CompileError | None = None
    faults: Mapping[str, CompileError] = field(default_factory=dict)


def simplify_part(source: Source, part: Part, session: Session | None = None) -> Answer[Graph]:
    """A part as a simplified graph, which is the same for every machine. Raises FatalError."""
    nodes = part_nodes(source, part)
    answer = _answer(source, part, lambda blame: simplify_graph(part_graph(source, part), blame, session))
    if any(f"onnx.{node.op_type}" in QUANTIZERS for node in nodes):
        return answer
    faults = {node.name: _float_fault(node) for node in nodes}
    nothing = CompileError(source.model.graph.name, "it has no node for the machine")
    return Answer(None, answer.error or next(iter(faults.values()), nothing), faults)


def cover_part(
    source: Source,
    part: Part,
    graph: Graph,
    machine: Machine,
    options: Options,
    keep: Keep | None = None,
    session: Session | None = None,
) -> Answer[Covered]:
    """A part, simplified to `graph`, with the machine's instructions for it. Raises FatalError."""
    return _answer(source, part, lambda blame: cover_graph(graph, machine, options, blame, keep, session))


def find_faults(model: onnx.ModelProto, machine: Machine) -> Mapping[str, CompileError]:
    """Of each node that the machine cannot do as it stands in this model, the compiler's error; empty if there is none.

    More may appear once these are gone. An error that is of no node in particular is of all of them. Raises
    CompileError for a model that is wrong.
    """
    source = read_source(model.SerializeToString())
    if source.refused:
        return source.refused
    whole = whole_network(source)
    simplified = simplify_part(source, whole)
    if simplified.made is None:
        return simplified.faults
    return cover_part(source, whole, simplified.made, machine, Options()).faults


def _answer(source: Source, part: Part, run: Callable[[Blame], Made | None]) -> Answer[Made]:
    """What passes make of a part, or all errors; one that is of no node in particular is of all of its nodes."""
    blame = Blame(collects=True)
    try:
        made = run(blame)
    except FatalError:
        raise
    except CompileError as error:
        first = next(iter(blame.faults.values()), error)
        nodes = error.nodes or [node.name for node in part_nodes(source, part)]
        return Answer(None, first, blame.faults | dict.fromkeys(nodes, error))
    if blame.faults:
        return Answer(None, next(iter(blame.faults.values())), blame.faults)
    return Answer(made)


def _float_fault(node: onnx.NodeProto) -> CompileError:
    """Why a node cannot run where nothing is quantised."""
    if f"onnx.{node.op_type}" in (*CANONICALIZE, *FUNCTIONS, *WRITTEN):
        expected = "QuantizeLinear and DequantizeLinear around it"
        return CompileError(fact="works on float tensors", expected=expected)
    return CompileError(fact=f"operator {node.op_type} has no lowering to the machine")
