"""Products as an unknown function with the laws needed of it: a solver need not multiply numbers of 30 bits."""

from __future__ import annotations

import z3

from tilewright.rtl.proof.meaning import WIDTH

_SORT = z3.BitVecSort(WIDTH)
PRODUCT = z3.Function("product", _SORT, _SORT, _SORT)
"""An unknown function that represents the product modulo 2**WIDTH. Only laws of integers are assumed for it."""


def abstracted(term: z3.ExprRef) -> z3.ExprRef:
    """A term with each of its multiplications replaced by PRODUCT.

    A multiplication of w bits is the low w bits of the product of any two numbers that agree with its arguments in
    the low w bits; sign extension gives such numbers.
    """
    changed: dict[int, z3.ExprRef] = {}
    todo = [term]
    while todo:
        node = todo[-1]
        if node.get_id() in changed:
            todo.pop()
            continue
        missing = [child for child in node.children() if child.get_id() not in changed]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        changed[node.get_id()] = _rebuilt(node, [changed[child.get_id()] for child in node.children()])
    return changed[term.get_id()]


def applications(term: z3.ExprRef) -> set[z3.ExprRef]:
    """All products that occur in a term."""
    found, seen, todo = set(), set(), [term]
    while todo:
        node = todo.pop()
        if node.get_id() not in seen:
            seen.add(node.get_id())
            todo.extend(node.children())
            if node.decl().eq(PRODUCT):
                found.add(node)
    return found


def _rebuilt(node: z3.ExprRef, args: list[z3.ExprRef]) -> z3.ExprRef:
    if not args:
        return node
    if node.decl().kind() != z3.Z3_OP_BMUL:
        return node.decl()(*args) if node.num_args() <= 2 or not _is_chain(node) else _chain(node, args)
    total = args[0]
    for factor in args[1:]:
        total = z3.Extract(node.size() - 1, 0, PRODUCT(_wide(total), _wide(factor)))
    return total


def _is_chain(node: z3.ExprRef) -> bool:
    return node.decl().kind() in _CHAINS


_CHAINS = {
    z3.Z3_OP_BADD: lambda a, b: a + b,
    z3.Z3_OP_BAND: lambda a, b: a & b,
    z3.Z3_OP_BOR: lambda a, b: a | b,
    z3.Z3_OP_BXOR: lambda a, b: a ^ b,
    z3.Z3_OP_CONCAT: z3.Concat,
    z3.Z3_OP_AND: z3.And,
    z3.Z3_OP_OR: z3.Or,
}


def _chain(node: z3.ExprRef, args: list[z3.ExprRef]) -> z3.ExprRef:
    result = args[0]
    for arg in args[1:]:
        result = _CHAINS[node.decl().kind()](result, arg)
    return result


def _wide(bits: z3.BitVecRef) -> z3.BitVecRef:
    return z3.SignExt(WIDTH - bits.size(), bits)
