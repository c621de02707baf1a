"""The passes that simplify a network, in order: none of them looks at the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.arrange_products import arrange_products
from tilewright.compiler.simplify.forms import forms
from tilewright.compiler.simplify.join_dimensions import join_dimensions
from tilewright.compiler.simplify.permute_moves import permute_moves
from tilewright.compiler.simplify.refold import refold
from tilewright.compiler.simplify.separate_ends import separate_ends
from tilewright.compiler.simplify.simplify import simplify


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A pass from graph to graph; errors of operators go to a `Blame`."""

    name: str
    run: Callable[[Graph, Blame, Session], Graph]


SIMPLIFIED_BY = "permute-moves"
"""After this pass, the graph has only canonical operators, on integers."""

SIMPLIFYING = (
    GraphPass("forms", forms),
    GraphPass("simplify", simplify),
    GraphPass("refold", lambda graph, blame, session: refold(graph)),
    GraphPass("arrange-products", lambda graph, blame, session: arrange_products(graph)),
    GraphPass("separate-ends", lambda graph, blame, session: separate_ends(graph)),
    GraphPass("join-dimensions", lambda graph, blame, session: join_dimensions(graph)),
    GraphPass(SIMPLIFIED_BY, lambda graph, blame, session: permute_moves(graph, blame)),
)


def simplify_graph(
    graph: Graph,
    blame: Blame = RAISING,
    session: Session | None = None,
    keep: Callable[[str, Graph], None] | None = None,
) -> Graph:
    """The graph by all of these passes; `keep` is given what each makes.

    They all run, so that `blame` collects the errors of all of them. Raises CompileError where it does not collect.
    """
    session = session or Session()
    for step in SIMPLIFYING:
        graph = step.run(graph, blame, session)
        if keep is not None:
            keep(step.name, graph)
    return graph
