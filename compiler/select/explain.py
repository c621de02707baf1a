"""Why no instructions compute a nest: the smallest expression that should have been covered and is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Nest
from tilewright.compiler.nest.space import describe, products_of
from tilewright.compiler.select.search import CoverSearch
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import IntegerType, type_of
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op
from tilewright.isa.machine.encoding import InstructionFormat


@dataclass(frozen=True, slots=True)
class Reason:
    """Why no instructions compute nests of one form: the expression that is missing, and what would help."""

    fact: str
    expected: str = ""
    remedy: str = ""

    def of(self, nest: Nest) -> CompileError:
        """The error that names a nest's nodes."""
        return CompileError(describe(nest), self.fact, expected=self.expected, remedy=self.remedy)


def explain(search: CoverSearch) -> Reason:
    """Why there is no cover; the same for all nests of one form."""
    missing = _missing(search)
    if (overflow := _overflow(search, missing)) is not None:
        return overflow
    fact = f"no instruction of {search.machine.name} computes `{_with_values_named(search, missing)}`"
    if missing.op is not Op.SUM or not _is_of_computed(search, missing):
        return Reason(fact, remedy="add one to the machine's instructions")
    expected = (
        "`dot(a, w)`, or `dot(a, transpose(w))` where the second one's channels are summed, and weights in words "
        f"of lanes = {search.machine.lanes} elements, as the tensors'"
    )
    return Reason(f"{fact} with both computed", expected)


def missing_instruction(search: CoverSearch) -> Expr:
    """What an instruction would have to compute: the smallest expression that none does.

    Values in it that instructions can compute are sources, by the name of the memory that they can be in.
    """
    return _with_values_named(search, _missing(search))


def _missing(search: CoverSearch) -> Expr:
    home = search.binder.home(search.nest.result.tensor)
    return next(_uncovered(search, home), search.nest.expr)


def _overflow(search: CoverSearch, missing: Expr) -> Reason | None:
    """Where instructions compute a value, and none leaves all of its bits: the most that any does."""
    found: list[tuple[IntegerType, InstructionFormat]] = []
    for pattern in search.patterns:
        statement, held = pattern.format.statement.expr, pattern.format.destination.element.type
        if statement.op is Op.WRAP and held is not None and not held.interval.contains(missing.range):
            unwrapped = search.unifier(pattern).part_matches(statement.args[0], missing)
            if next(unwrapped, None) is not None:
                found.append((held, pattern.format))
    if not found:
        return None
    held, format = max(found, key=lambda each: each[0].bits)
    memory, needed = format.destination.memory, type_of(missing.range)
    fact = f"its sums may reach {missing.range.low:,} to {missing.range.high:,}, and {format.mnemonic} leaves {held}"
    wider = f"{needed} or wider in {memory}, such as by memories.{memory}.element={needed}"
    return Reason(fact, f"{wider}, or an instruction that adds up pieces of sums, `sum(a)` with `a` in {memory}")


def _is_of_computed(search: CoverSearch, total: Expr) -> bool:
    """Whether a sum multiplies two tensors, neither of them weights."""
    products = products_of(total.args[0])
    reads = [] if products is None else [search.nest.reads[arg.name] for arg in products.main.args]
    return bool(reads) and all(read.tensor in search.program.buffers for read in reads)


def _uncovered(search: CoverSearch, home: str) -> Iterator[Expr]:
    """The expressions whose values should be in a memory and that no instructions compute, smallest first."""
    element = search.machine.memories[home].element.type
    nodes = walk(search.nest.expr)
    reductions = [node for node in nodes if node.op in REDUCTIONS]
    written = {pattern.format.destination.element.type for pattern in search.patterns}
    loops = set(search.space.reduce)
    below = {inner for node in reductions for arg in node.args for inner in walk(arg)}
    inside = {inner for inner in below if loops & search.loops_of(inner)}
    inside |= {node.args[0] for node in nodes if node.op in ACROSS_LANES}
    for node in dict.fromkeys(nodes):
        if node in inside:
            continue  # what a reduction runs over is never a value in a memory
        is_stored = node.op in REDUCTIONS | ACROSS_LANES or (node.op is Op.WRAP and node.type in written)
        is_cut = is_stored or (element is not None and element.interval.contains(node.range))
        if node.args and is_cut and not _is_covered(search, node):
            yield node


def _is_covered(search: CoverSearch, expr: Expr) -> bool:
    return any(search.best(expr, memory) is not None for memory in search.machine.memories)


def _with_values_named(search: CoverSearch, expr: Expr) -> Expr:
    """The expression, with every value that instructions can compute replaced by the name of its memory."""
    arguments = tuple(_value_named(search, argument) for argument in expr.args)
    return Expr(expr.op, expr.range, arguments, expr.name, expr.field, expr.value, expr.type, expr.rounding)


def _value_named(search: CoverSearch, value: Expr) -> Expr:
    if value.args and not search.loops_of(value) & set(search.space.reduce):
        for memory in search.machine.memories:
            if search.best(value, memory) is not None:
                return Expr(Op.SOURCE, value.range, name=memory)
    return _with_values_named(search, value)
