"""Level 1 to level 1: from ONNX's operators to few canonical ones on integers. Rules are tables of small functions."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.errors import RAISING, Blame
from compiler.graph import Graph
from compiler.simplify.affine import AFFINE
from compiler.simplify.arrange_products import arrange_products
from compiler.simplify.binary import BINARIES
from compiler.simplify.blocks import BLOCKS
from compiler.simplify.canonical import CANONICALIZE
from compiler.simplify.check import require_integer, require_quantized
from compiler.simplify.computed_products import COMPUTED_PRODUCTS
from compiler.simplify.dimensions import join_dimensions
from compiler.simplify.fold import FOLD
from compiler.simplify.integer import INTEGER
from compiler.simplify.layout import LAYOUT
from compiler.simplify.moves import MOVES
from compiler.simplify.padding import PADDING
from compiler.simplify.permutes import permute_moves
from compiler.simplify.refold import refold
from compiler.simplify.resize import RESIZE
from compiler.simplify.rewrite import Rules, drop_dead_code, merge_equal_operators, rewrite
from compiler.simplify.tables import TABLES
from compiler.simplify.transposes import TRANSPOSES

RULES: Sequence[Rules] = (
    FOLD, CANONICALIZE, BINARIES, COMPUTED_PRODUCTS, AFFINE, MOVES, BLOCKS, RESIZE, INTEGER, TABLES, LAYOUT, PADDING,
    TRANSPOSES,
)  # fmt: skip
"""All rules, in the order in which those of one operator kind are tried."""


def simplify(graph: Graph, blame: Blame = RAISING) -> Graph:
    """The same network as canonical operators on quantised tensors; raises CompileError where that is not possible.

    Afterwards, quantize reads only graph inputs, dequantize makes only graph outputs, and everything between is
    integer: products, sums, pools and moves of elements. A reshape or transposition that stays moves nothing.
    """
    graph = drop_dead_code(graph)
    require_quantized(graph)
    graph = merge_equal_operators(graph)
    graph = rewrite(graph, merged(RULES), blame)
    graph = arrange_products(refold(merge_equal_operators(graph)))
    graph = permute_moves(join_dimensions(graph), blame)
    require_integer(graph, blame)
    return graph


def merged(tables: Sequence[Rules]) -> Rules:
    """One table that tries the rules of each operator kind in the tables' order."""
    kinds = dict.fromkeys(kind for table in tables for kind in table)
    return {kind: tuple(rule for table in tables for rule in table.get(kind, ())) for kind in kinds}
