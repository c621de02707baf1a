"""What exporters write as many nodes becomes one operator again, before all other rules."""

from __future__ import annotations

from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.check import require_quantized
from tilewright.compiler.simplify.choices import CHOICE_FORMS
from tilewright.compiler.simplify.masks import MASK_FORMS
from tilewright.compiler.simplify.microsoft import MICROSOFT_FORMS
from tilewright.compiler.simplify.normalization_forms import NORMALIZATION_FORMS
from tilewright.compiler.simplify.normalization_groups import GROUP_FORMS
from tilewright.compiler.simplify.repeated_matrices import REPETITION_FORMS
from tilewright.compiler.simplify.rewrite import Rules, drop_dead_code, merge_equal_operators, merged, rewrite

FORMS: Rules = merged((MICROSOFT_FORMS, NORMALIZATION_FORMS, GROUP_FORMS, MASK_FORMS, CHOICE_FORMS, REPETITION_FORMS))


def forms(graph: Graph, blame: Blame = RAISING, session: Session | None = None) -> Graph:
    """The graph without dead code, with equal operators as one, and with one operator for each known form of several.

    Raises NotQuantized for a float network.
    """
    graph = drop_dead_code(graph)
    require_quantized(graph)
    return merge_equal_operators(rewrite(merge_equal_operators(graph), FORMS, blame, session))
