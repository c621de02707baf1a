"""Level 1 to level 1: ONNX's operators become a few canonical ones on integers, by tables of small rules."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.affine import AFFINE_RULES, LONE_AFFINE_RULES
from tilewright.compiler.simplify.arrange_products import arrange_products
from tilewright.compiler.simplify.between import BETWEEN_RULES
from tilewright.compiler.simplify.between_sums import BETWEEN_SUMS_RULES
from tilewright.compiler.simplify.binary import BINARY_RULES
from tilewright.compiler.simplify.blocks import BLOCK_RULES
from tilewright.compiler.simplify.canonical import CANONICALIZE
from tilewright.compiler.simplify.casts import CAST_RULES
from tilewright.compiler.simplify.check import require_integer, require_quantized
from tilewright.compiler.simplify.choices import CHOICE_FORMS
from tilewright.compiler.simplify.concats import CONCAT_RULES
from tilewright.compiler.simplify.dimensions import join_dimensions
from tilewright.compiler.simplify.fold import FOLD_RULES
from tilewright.compiler.simplify.found_scales import LONE_CONSTANT_RULES, reads_float_constant
from tilewright.compiler.simplify.heads import HEAD_RULES
from tilewright.compiler.simplify.integer import INTEGER_RULES
from tilewright.compiler.simplify.layout import LAYOUT_RULES
from tilewright.compiler.simplify.masks import MASK_FORMS
from tilewright.compiler.simplify.microsoft import MICROSOFT_FORMS
from tilewright.compiler.simplify.moves import MOVE_RULES
from tilewright.compiler.simplify.normalization_forms import NORMALIZATION_FORMS
from tilewright.compiler.simplify.normalization_groups import GROUP_FORMS
from tilewright.compiler.simplify.one_rounding import ONE_ROUNDING_RULES
from tilewright.compiler.simplify.padding import PADDING_RULES
from tilewright.compiler.simplify.permutes import permute_moves
from tilewright.compiler.simplify.product_factors import PRODUCT_FACTOR_RULES
from tilewright.compiler.simplify.refold import refold
from tilewright.compiler.simplify.reordered_concats import REORDERED_CONCAT_RULES
from tilewright.compiler.simplify.repeated_matrices import REPETITION_FORMS
from tilewright.compiler.simplify.resize import RESIZE_RULES
from tilewright.compiler.simplify.rewrite import Rules, drop_dead_code, merge_equal_operators, rewrite
from tilewright.compiler.simplify.tables import TABLE_RULES
from tilewright.compiler.simplify.transposes import TRANSPOSE_RULES, separate_ends

RULES: Sequence[Rules] = (
    FOLD_RULES,
    CANONICALIZE,
    CAST_RULES,
    HEAD_RULES,
    BINARY_RULES,
    PRODUCT_FACTOR_RULES,
    AFFINE_RULES,
    MOVE_RULES,
    CONCAT_RULES,
    BLOCK_RULES,
    RESIZE_RULES,
    INTEGER_RULES,
    TABLE_RULES,
    LAYOUT_RULES,
    PADDING_RULES,
    TRANSPOSE_RULES,
    REORDERED_CONCAT_RULES,
)
"""All rules, in the order in which those of one operator kind are tried."""


def simplify(graph: Graph, blame: Blame = RAISING, session: Session | None = None) -> Graph:
    """The same network as canonical operators on quantised tensors; raises CompileError where that is not possible.

    Afterwards, quantize reads only graph inputs, dequantize makes only graph outputs, and everything between is
    integer: products, sums, pools and moves of elements. A reshape or transposition that is left moves nothing.
    """
    session = session or Session()
    graph = drop_dead_code(graph)
    require_quantized(graph)
    graph = merge_equal_operators(rewrite(merge_equal_operators(graph), FORMS, blame, session))
    graph = rewrite(graph, BY_KIND, blame, session)
    if any(operator.kind in LONE_AFFINE_RULES for operator in graph.operators):
        graph = rewrite(graph, BY_KIND_WITH_LONE_AFFINE, blame, session)
    if reads_float_constant(graph):
        graph = rewrite(graph, BY_KIND_WITH_LONE_CONSTANTS, blame, session)
    if any(operator.kind == "quantize" and operator.inputs[0] in graph.producers for operator in graph.operators):
        graph = rewrite(graph, BY_KIND_WITH_ROUNDINGS, blame, session)
    graph = separate_ends(arrange_products(refold(merge_equal_operators(graph))))
    graph = permute_moves(join_dimensions(graph), blame)
    require_integer(graph, blame)
    return graph


def merged(tables: Sequence[Rules]) -> Rules:
    """One table that tries the rules of each operator kind in the tables' order."""
    kinds = dict.fromkeys(kind for table in tables for kind in table)
    return {kind: tuple(rule for table in tables for rule in table.get(kind, ())) for kind in kinds}


FORMS: Rules = merged((MICROSOFT_FORMS, NORMALIZATION_FORMS, GROUP_FORMS, MASK_FORMS, CHOICE_FORMS, REPETITION_FORMS))
"""What exporters write as many nodes becomes one operator again, before all other rules."""

BY_KIND: Rules = merged(RULES)
BY_KIND_WITH_LONE_CONSTANTS: Rules = merged((*RULES, LONE_AFFINE_RULES, LONE_CONSTANT_RULES))
BY_KIND_WITH_LONE_AFFINE: Rules = merged((*RULES, LONE_AFFINE_RULES))
BY_KIND_WITH_ROUNDINGS: Rules = merged(
    (*RULES, LONE_AFFINE_RULES, LONE_CONSTANT_RULES, ONE_ROUNDING_RULES, BETWEEN_RULES, BETWEEN_SUMS_RULES)
)
"""For what none of these could make an operator on integers."""
