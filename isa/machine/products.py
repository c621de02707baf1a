"""Instructions that multiply vectors with weight tiles, told by their statements, and those that add to such sums."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand


def is_product(format: InstructionFormat) -> bool:
    """Whether an instruction is `c = wrap(sum(dot(a, w)), int32)`, of any type."""
    expr = format.statement.expr
    return expr.op is Op.WRAP and _is_sum(expr.args[0])


def adds_product(format: InstructionFormat) -> Operand | None:
    """The operand to which a product is added: of `c = wrap(b + sum(dot(a, w)), int32)` it is b."""
    expr = format.statement.expr
    if expr.op is not Op.WRAP or expr.args[0].op is not Op.ADD:
        return None
    sums = [arg for arg in expr.args[0].args if _is_sum(arg)]
    others = [arg for arg in expr.args[0].args if arg.op is Op.SOURCE and not arg.field]
    return format.operand(others[0].name) if len(sums) == len(others) == 1 else None


def _is_sum(expr: Expr) -> bool:
    return expr.op is Op.SUM and expr.args[0].op is Op.DOT


def continues(format: InstructionFormat, product: InstructionFormat) -> bool:
    """Whether an instruction adds to sums what another one computes, of the same vectors and tiles by the same loops.

    Example: `multiply_add` continues `multiply`, if what it adds moves as the sums do.
    """
    added, sums = adds_product(format), product.destination
    if added is None or not is_product(product) or format.engine != product.engine or format.loops != product.loops:
        return False
    others = tuple(source for source in format.sources if source is not added)
    if (added.memory, added.loops, added.block) != (sums.memory, sums.loops, sums.block):
        return False
    fields = {field.name: field.type for field in format.fields}
    moves_as_sums = all(fields[f"{added.name}.{of}"] == fields[f"{sums.name}.{of}"] for of in ("base", *sums.loops))
    has_fields = all(fields.get(field.name) == field.type for field in product.fields)
    return moves_as_sums and has_fields and (others, format.destination) == (product.sources, sums)
