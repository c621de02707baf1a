"""Why a machine cannot run some nodes of a model: the compiler's own errors, for all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tilewright.compiler.errors import Blame, CompileError, DamagedModel
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.onnx_import import import_onnx
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import PASSES, pass_names
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.simplify import simplify
from tilewright.compiler.simplify.canonical import CANONICALIZE
from tilewright.compiler.simplify.check import QUANTIZERS
from tilewright.compiler.simplify.tables import FUNCTIONS
from tilewright.isa.machine.machine import Machine


def find_faults(model: onnx.ModelProto, machine: Machine) -> Mapping[str, CompileError]:
    """Of each node that the machine cannot do as it stands in this model, the compiler's error; empty if there is none.

    More may appear once these are gone. An error that is of no node in particular is of all of them. Raises
    DamagedModel.
    """
    if not any(f"onnx.{node.op_type}" in QUANTIZERS for node in model.graph.node):
        return {node.name: _float_fault(node) for node in model.graph.node}
    blame = Blame(collects=True)
    try:
        graph = simplify(import_onnx(model.SerializeToString()), blame)
        if not blame.faults:
            _find_uncovered(graph, machine, blame)
    except DamagedModel:
        raise
    except CompileError as error:
        return blame.faults | {node: error for node in error.nodes or [node.name for node in model.graph.node]}
    return blame.faults


def _float_fault(node: onnx.NodeProto) -> CompileError:
    """Why a node cannot run where nothing is quantised."""
    if f"onnx.{node.op_type}" in (*CANONICALIZE, *FUNCTIONS):
        expected = "QuantizeLinear and DequantizeLinear around it"
        return CompileError(fact="works on float tensors", expected=expected)
    return CompileError(fact=f"operator {node.op_type} has no lowering to the machine")


def _find_uncovered(graph: Graph, machine: Machine, blame: Blame) -> None:
    """Faults of a simplified graph: numbers that the machine cannot hold, and nests that no instructions cover."""
    nests = lower(graph, machine, blame)
    if blame.faults:
        return
    for step in PASSES[pass_names().index("lower") + 1 : pass_names().index("select")]:
        nests = step.run(nests, machine, Options())
    selector = Selector(machine, nests)
    for nest in nests.nests:
        with blame.on(nest.nodes):
            selector.cover(nest)
