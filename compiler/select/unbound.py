"""Why an instruction whose statement is the layer's expression cannot take it: an operand to which nothing binds."""

from __future__ import annotations

from tilewright.compiler.nest.space import is_matrix_of_constants, is_vector, summed_loop
from tilewright.compiler.select.bindings import Match
from tilewright.compiler.select.differences import shown
from tilewright.compiler.select.search import CoverSearch, Pattern
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.products import adds_product
from tilewright.isa.templates.systolic import is_transposing, systolic_activations, systolic_weights


def why_unbound(search: CoverSearch, pattern: Pattern, expr: Expr, match: Match) -> tuple[int, str]:
    """The first operand that nothing can be bound to, and why; or where the result would be of no use.

    Before it, how many operands can be bound.
    """
    if pattern.dot is not None:
        text = _of_product(search, pattern, match)
        if text:
            return 0, text
    for bound, operand in enumerate(() if pattern.dot is not None else pattern.format.sources):
        if search.bind_operand(operand, pattern, match) is None:
            return bound, _of_operand(search, pattern, operand, match)
    return len(pattern.format.sources), _of_whole(search, pattern, expr, match)


def _of_whole(search: CoverSearch, pattern: Pattern, expr: Expr, match: Match) -> str:
    """Why it is of no use though each operand can be bound."""
    of_blocks = pattern.format.statement.blocks
    blocks = {operand.name: operand.block for operand in pattern.format.sources if operand.name in of_blocks}
    if blocks and search.bind(pattern, expr, match) is None:
        words = " and ".join(f"{count} words of its `{name}`" for name, count in blocks.items())
        trips = sorted({search.space.trips[loop] for loop in search.space.reduce} - {1})
        return f"it takes {words} along a row, and the layer sums over {', '.join(map(str, trips)) or 'one'}"
    memory, home = pattern.format.destination.memory, search.binder.home(search.nest.result.tensor)
    if expr is search.nest.expr and memory != home:
        return f"it writes to {memory}, and the layer's result lies in {home}"
    return f"it writes {shown(expr)} to {memory}, where no other instruction of the layer reads it"


def _of_product(search: CoverSearch, pattern: Pattern, match: Match) -> str:
    """Why a dot product cannot take its vectors and its matrix; nothing if it can."""
    format, machine = pattern.format, search.machine
    if (added := adds_product(format)) is not None:
        return f"its `{added.name}` are sums that another instruction has begun"
    if search.binder.product(format, match) is not None:
        can_add = pattern.continuing is not None
        return "" if can_add else "it cannot add to sums, and the layer has several products to add"
    vector, weights = systolic_activations(format), systolic_weights(format)
    vectors, tiles = match.operands[vector.name], match.operands[weights.name]
    for operand, value in ((vector, vectors), (weights, tiles)):
        if value.op is not Op.SOURCE:
            return f"its `{operand.name}` is a tensor, and the layer computes {shown(value)} there"
    access, matrix = search.nest.reads[vectors.name], search.nest.reads[tiles.name]
    if not search.binder.is_tensor_in(vectors, vector.memory):
        return f"its `{vector.name}` lies in {vector.memory}, and the layer's `{vectors.name}` does not"
    if not is_vector(access, search.space, vector.block * machine.lanes):
        return f"its `{vector.name}` are vectors of channels, and the layer reads `{vectors.name}` in another order"
    if matrix.tensor not in search.program.constants:
        channels = "the words of" if is_transposing(format) else "the rows of"
        return f"{channels} its `{weights.name}` are not as the layer's `{tiles.name}` lies: {_summed(search)}"
    if is_transposing(format):
        return f"its `transpose({weights.name})` turns a computed tensor, and the layer's `{tiles.name}` is constant"
    summed = summed_loop(access)
    assert summed is not None
    if not is_matrix_of_constants(matrix, summed, search.space):
        return f"its `{weights.name}` is a matrix of channels, and the layer's `{tiles.name}` is none"
    return f"its `{weights.name}` cannot take the layer's `{tiles.name}`"


def _summed(search: CoverSearch) -> str:
    channels = max((search.space.trips[loop] for loop in search.space.reduce), default=1)
    return f"{channels} channels are summed, {search.machine.lanes} lie in a word"


def _of_operand(search: CoverSearch, pattern: Pattern, operand: Operand, match: Match) -> str:
    if operand.element.fields:
        return f"its `{operand.name}` has a constant for each channel or pixel, and the layer's go with other loops"
    if operand.name in match.idle or operand.name not in match.operands:
        return f"its `{operand.name}` stands for nothing in the layer, and nothing else is read from {operand.memory}"
    expr = match.operands[operand.name]
    name = f"`{operand.name}`"
    if operand in pattern.format.tables:
        entries = search.program.constants[search.nest.reads[expr.name].tensor].shape[-1]
        return f"its table {name} has {operand.block} entries for a channel, and the layer's has {entries}"
    if search.binder.is_tensor_in(expr, operand.memory):
        walks = "over all channels" if operand.name in pattern.across else "from channel to channel"
        return f"its {name} goes {walks}, and the layer reads `{expr.name}` in another order"
    if expr.op is Op.SOURCE and expr.name in search.nest.reads:
        tensor = search.nest.reads[expr.name].tensor
        if tensor in search.program.constants:
            return f"its {name} is a tensor in {operand.memory}, and the layer's `{expr.name}` is a constant"
        return f"its {name} lies in {operand.memory}, and the layer's `{expr.name}` in {search.binder.home(tensor)}"
    if operand.name in match.reduced or operand.name in pattern.across:
        return f"its {name} is a tensor that it reduces, and the layer computes {shown(expr)} there"
    return f"its {name} lies in {operand.memory}, where no instruction leaves {shown(expr)}"
