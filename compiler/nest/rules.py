"""What a valid nest program keeps: its tensors, loops, accesses and expressions fit each other.

`nest.element_rules` has the rules about single elements, `nest.range_rules` those about values; RULES are all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from tilewright.compiler.nest.element_rules import ELEMENT_RULES, nest_fault
from tilewright.compiler.nest.nest import Access, Nest, NestProgram, stored_dtype
from tilewright.compiler.nest.range_rules import RANGE_RULES
from tilewright.compiler.nest.space import LoopsOf
from tilewright.compiler.rules import Rule, RuleViolation
from tilewright.isa.errors import IsaError
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op
from tilewright.isa.program.program import Tensor, require_elements, require_scales
from tilewright.isa.program.stored_types import DTYPES, INTEGERS

MOST_TRIPS = 1 << 26
"""Of one loop, and elements of a tensor: a model has at most so many in one."""

MOST_ITERATIONS = 1 << 40
"""Of all loops of a nest together; a layer of VGG-16 has 2^31."""


# -- tensors -----------------------------------------------------------------------------------------------------------


def _tensors(program: NestProgram) -> Iterator[RuleViolation]:
    for buffer in program.buffers.values():
        if len(buffer.shape) != 4 or min(buffer.shape) < 1 or prod(buffer.shape) > MOST_TRIPS:
            fact = f"its shape is {list(buffer.shape)}"
            yield RuleViolation(
                buffer.name, f"buffer {buffer.name}", fact, f"[N, C, H, W] of up to {MOST_TRIPS:,} elements"
            )
    for name, values in program.constants.items():
        if values.size == 0 or values.size > MOST_TRIPS * 4:
            yield RuleViolation(name, f"constant {name}", f"its shape is {list(values.shape)}", "elements")


def _constants(program: NestProgram) -> Iterator[RuleViolation]:
    for name, values in program.constants.items():
        element = program.constant_types[name]
        if values.dtype != stored_dtype(element):
            yield RuleViolation(name, f"constant {name}", f"{values.dtype} for {element}", str(stored_dtype(element)))
        elif int(values.min()) < element.values.low or int(values.max()) > element.values.high:
            fact = f"its values are from {values.min()} to {values.max()}"
            yield RuleViolation(name, f"constant {name}", fact, f"those of {element}: {element.values}")


def _hosts(program: NestProgram) -> Iterator[RuleViolation]:
    for what, tensors in (("input", program.inputs), ("output", program.outputs)):
        counts = Counter(tensor.name for tensor in tensors)
        for tensor in tensors:
            where = f"{what} {tensor.name!r}"
            if counts[tensor.name] > 1:
                yield RuleViolation(None, where, "is there twice")
            elif tensor.name not in program.buffers:
                yield RuleViolation(None, where, "has no buffer", f"one of {', '.join(program.buffers)}")
            else:
                yield from (
                    RuleViolation(None, where, fact, expected) for fact, expected in _host_faults(tensor, program)
                )


def _host_faults(tensor: Tensor, program: NestProgram) -> Iterator[tuple[str, str]]:
    buffer = program.buffers[tensor.name]
    if tensor.dtype not in DTYPES or tensor.integers not in INTEGERS:
        yield f"is {tensor.dtype}, stored as {tensor.integers}", f"one of {', '.join(DTYPES)}"
        return
    if tensor.stored != buffer.shape:
        yield f"is stored as {list(tensor.stored)}", f"the buffer's {list(buffer.shape)}"
    elif tensor.element.bits > buffer.type.bits or (tensor.offset, tensor.lanes) != (0, 0):
        yield f"has elements {tensor.element} at {tensor.offset}, {tensor.lanes} lanes", f"{buffer.type}, 0, and 0"
    else:
        try:
            require_elements(tensor)
            require_scales(tensor)
        except IsaError as error:
            yield str(error), ""


# -- nests -------------------------------------------------------------------------------------------------------------


def _products(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        if not 0 <= nest.macs < 1 << 63:
            yield nest_fault(number, nest, f"macs is {nest.macs}", "a number of multiplications")


def _loops(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        names = [loop.name for loop in nest.loops]
        for loop in nest.loops:
            if not 1 <= loop.trip <= MOST_TRIPS:
                yield nest_fault(number, nest, f"{loop.trip:,} trips of {loop.name}", f"from 1 up to {MOST_TRIPS:,}")
            elif names.count(loop.name) > 1:
                yield nest_fault(number, nest, f"{names.count(loop.name)} loops are {loop.name}", "one")
        if prod(loop.trip for loop in nest.loops) > MOST_ITERATIONS:
            most = f"at most 2^{MOST_ITERATIONS.bit_length() - 1}"
            yield nest_fault(number, nest, f"{prod(loop.trip for loop in nest.loops):,} iterations", most)


def _accesses(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        tables = {node.name for node in walk(nest.expr) if node.op is Op.LUT}
        for name, access in nest.reads.items():
            is_table = name in tables
            fault = _index_fault(access, program, nest, is_table)
            if fault:
                yield nest_fault(number, nest, f"{name}: {fault}")
        if nest.result.tensor not in program.buffers:
            yield nest_fault(number, nest, f"its result {nest.result.tensor} is no buffer")
        elif fault := _index_fault(nest.result, program, nest, False):
            yield nest_fault(number, nest, f"result: {fault}")


def _index_fault(access: Access, program: NestProgram, nest: Nest, is_table: bool) -> str:
    """What is wrong with the indices of an access; nothing where that is empty."""
    name = access.tensor
    if name not in program.buffers and name not in program.constants:
        return f"there is no tensor {name}"
    if is_table and name not in program.constants:
        return f"the table {name} is no constant"
    shape = program.constants[name].shape if name in program.constants else program.buffers[name].shape
    if len(access.index) != len(shape) - is_table:
        return f"{name} has {len(shape) - is_table} dimensions, got {len(access.index)} indices"
    order = [loop.name for loop in nest.loops]
    for index in access.index:
        loops = [loop for loop, _ in index.terms]
        if not set(loops) <= set(order) or sorted(set(loops), key=order.index) != loops:
            return f"an index has the loops {', '.join(loops)}; expected some of {', '.join(order)} in order"
        if any(by == 0 for _, by in index.terms):
            return "an index has a loop times 0"
    return ""


def _expressions(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        for node in walk(nest.expr):
            if node.op in (Op.SOURCE, Op.LUT) and node.name not in nest.reads:
                fact = f"the expression reads {node.name!r}, for which there is no access"
                yield nest_fault(number, nest, fact)
            elif node.op is Op.IMMEDIATE:
                yield nest_fault(number, nest, f"the expression has the immediate {node.name}", "a number")
        read = {node.name for node in walk(nest.expr) if node.op in (Op.SOURCE, Op.LUT)}
        for name in nest.reads:
            if name not in read:
                yield nest_fault(number, nest, f"the expression does not read {name!r}", "each access read")


def _reductions(program: NestProgram) -> Iterator[RuleViolation]:
    for number, nest in enumerate(program.nests):
        reduce = [loop.name for loop in nest.loops if loop.is_reduce]
        reductions = {node for node in walk(nest.expr) if node.op in REDUCTIONS}
        outside = sorted(LoopsOf(nest)(nest.expr) & set(reduce))
        if outside:
            fact = f"the expression depends on {', '.join(outside)} outside of a reduction"
            yield nest_fault(number, nest, fact, "a value for each element of the result")
        across = any(node.op in ACROSS_LANES for node in walk(nest.expr))
        if bool(reduce) != bool(reductions) or (len(reductions) > 1 and not across):
            fact = f"{len(reductions)} reductions over the reduce loops {', '.join(reduce) or 'none'}"
            yield nest_fault(number, nest, fact, "one reduction exactly if there are such loops")


RULES: Sequence[Rule[NestProgram]] = (
    Rule("tensors", "A buffer is [N, C, H, W], and no tensor is empty or larger than a model's may be.", _tensors),
    Rule("constants", "A constant's values are of its type.", _constants),
    Rule("hosts", "An input or output is a buffer of the shape and type in which the host stores it.", _hosts),
    Rule("products", "A nest has 0 or more multiplications of the model.", _products),
    Rule("loops", "A nest's loops have different names and 1 to 2^26 trips, together up to 2^40 iterations.", _loops),
    Rule("accesses", "An access has an index for each dimension of a tensor, over loops of its nest.", _accesses),
    Rule("expressions", "An expression reads all of its nest's accesses and nothing else.", _expressions),
    Rule("reductions", "Reduce loops end in the nest's one reduction, or in those across lanes.", _reductions),
    *ELEMENT_RULES,
    *RANGE_RULES,
)
"""All rules of nest programs, in order."""
