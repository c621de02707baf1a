"""Nodes of expressions: what makes two of them equal, and what a copy takes along."""

from __future__ import annotations

import pickle

from tilewright.isa.language.expressions import Expr, const, make, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import Op

X = Expr(Op.SOURCE, Interval(-128, 127), name="x")


def test_equal_trees_have_equal_hashes() -> None:
    one, other = (make(Op.ADD, Expr(Op.SOURCE, Interval(-128, 127), name="x"), const(3)) for _ in range(2))
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)


def test_a_copy_for_another_process_takes_no_hash_along() -> None:
    """Each process has hashes of its own: they are made of those of texts."""
    tree = make(Op.ADD, X, const(3))
    hash(tree)
    (copied,) = pickle.loads(pickle.dumps([tree]))  # noqa: S301
    assert copied == tree
    assert not hasattr(copied, "_hash")


def test_walks_arguments_before_the_node_that_uses_them() -> None:
    total = make(Op.ADD, X, const(3))
    product = make(Op.MUL, total, X)
    assert walk(product) == (X, const(3), total, X, product)
