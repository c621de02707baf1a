"""Nest programs as text and back: level 2 in MLIR's generic syntax.

    %conv1 = "nest.buffer"() : () -> memref<1x32x8x8xi8>
    "nest.compute"(%input, %conv1.weight, …, %conv1) {name = "conv1", loops = ["n 1", "o 32", …, "i 16 reduce"],
        reads = {x = "n, i, y + r - 1, x + s - 1 outside -128", w = "o, i, r, s", …}, result = "n, o, y, x",
        expr = "min(max(round_shift((sum(x * w) + bias) * scale, shift) + 3, -128), 127)",
        ranges = {x = [-128, 127], …, sum = [-90000, 91000]}, rounding = "even", nodes = ["Conv conv1"], macs = 294912}

    "nest.part"(%cache, %all) {first = [0, 0, 0, 0]} : (memref<4x8x1x64xi8>, memref<4x8x1x65xi8>) -> ()

An index is a sum of loops with coefficients (`2*y + r - 1`). Ranges are given for what cannot be inferred: the reads
and the sum. What all channels of a pixel share and an expression uses several times is named in `values`, in order:

    values = {v1 = "lanes_max(max_over(a))", …}, expr = "… lut(e, wrap(v1 - x, uint8)) …"
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.buffer_text import (
    BUFFER,
    COMPUTE,
    DIALECT,
    PART,
    parse_memref,
    print_memref,
    print_part,
    with_part,
)
from tilewright.compiler.nest.expressions import across_lanes, scope_of_rounding
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram, stored_dtype
from tilewright.compiler.text.attributes import (
    at_line,
    attribute,
    parse_remarks,
    parse_tensor,
    remarks_attribute,
    require_attributes,
    strings,
    tensor_attribute,
)
from tilewright.compiler.text.mlir import Attribute, Block, Operation
from tilewright.compiler.text.node_names import parse_nodes, print_nodes
from tilewright.compiler.text.parser import parse_program
from tilewright.compiler.text.printer import print_operation
from tilewright.isa.errors import IsaError
from tilewright.isa.language.expressions import Expr, const, make, walk
from tilewright.isa.language.facts import Kind, Setting
from tilewright.isa.language.numeric import IntegerType, Interval, Rounding, parse_integer_type
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.language.statement import SIGNS
from tilewright.isa.program.program import Tensor

PROGRAM = DIALECT + "program"
CONSTANT = DIALECT + "constant"
SUM = "sum"
"""The name under which the range of the expression's sum is given."""


def print_nests(program: NestProgram) -> str:
    """The program as text; `parse_nests` gives an equal program back."""
    return print_operation(nests_operation(program)) + "\n"


def parse_nests(text: str) -> NestProgram:
    """The nest program of a text; raises CompileError for a fault of the text."""
    return read_nests(parse_program(text))


def nests_operation(program: NestProgram) -> Operation:
    """The program as an operation, for a text that holds more; `read_nests` gives an equal program back."""
    constants = [_print_constant(name, program) for name in program.constants]
    buffers = [
        Operation(BUFFER, results=(buffer.name,), result_types=(print_memref(buffer.shape, buffer.type),))
        for buffer in program.buffers.values()
    ]
    parts = [print_part(part, buffer, program) for buffer in program.buffers.values() for part in buffer.parts]
    nests = [_print_nest(nest, program) for nest in program.nests]
    attributes = {
        "name": program.name,
        "inputs": tuple(map(tensor_attribute, program.inputs)),
        "outputs": tuple(map(tensor_attribute, program.outputs)),
        **remarks_attribute(program.remarks),
    }
    return Operation(PROGRAM, attributes=attributes, region=Block((), (*constants, *buffers, *parts, *nests)))


def read_nests(whole: Operation) -> NestProgram:
    """The nest program of an operation; raises CompileError for a fault of it."""
    if whole.name != PROGRAM or whole.region is None:
        raise CompileError(fact=f"expected a {PROGRAM!r} with a region, got {whole.name!r}")
    with at_line(whole):
        require_attributes(whole, "name", "inputs", "outputs", "remarks")
        inputs, outputs = (tuple(map(parse_tensor, attribute(whole, name, tuple))) for name in ("inputs", "outputs"))
        program = NestProgram(attribute(whole, "name", str), (), {}, {}, {}, inputs, outputs, parse_remarks(whole))
    reader = _Reader(inputs)
    for operation in whole.region.operations:
        with at_line(operation):
            reader.read(operation)
    return replace(
        program,
        nests=tuple(reader.nests),
        buffers=reader.buffers,
        constants=reader.constants,
        constant_types=reader.types,
    )


class _Reader:
    """Collects the tensors and the nests of a text."""

    def __init__(self, inputs: tuple[Tensor, ...]) -> None:
        self._inputs = inputs
        self.constants: dict[str, NDArray[Any]] = {}
        self.types: dict[str, IntegerType] = {}
        self.buffers: dict[str, Buffer] = {}
        self.nests: list[Nest] = []

    def read(self, operation: Operation) -> None:
        match operation:
            case Operation(name="nest.constant", results=(name,), result_types=(memref,)):
                require_attributes(operation, "value")
                self._constant(name, attribute(operation, "value", np.ndarray), memref)
            case Operation(name="nest.buffer", results=(name,), result_types=(memref,)):
                require_attributes(operation)
                self.buffers[name] = Buffer(name, *parse_memref(memref))
            case Operation(name="nest.part", results=(), operands=(tensor, joined)):
                require_attributes(operation, "first")
                self.buffers[joined] = with_part(operation, tensor, joined, self.buffers, self._inputs)
            case Operation(name="nest.compute", results=()):
                self.nests.append(_parse_nest(operation))
            case _:
                raise CompileError(
                    fact=f"unknown operation {operation.name!r}", expected=f"{CONSTANT}, {BUFFER}, {PART} or {COMPUTE}"
                )

    def _constant(self, name: str, values: NDArray[Any], memref: str) -> None:
        shape, self.types[name] = parse_memref(memref)
        if values.shape != shape:
            raise CompileError(
                f"constant {name}", f"its value has shape {list(values.shape)}", expected=f"{list(shape)}"
            )
        self.constants[name] = values


# -- types and constants -----------------------------------------------------------------------------------------------


def _print_constant(name: str, program: NestProgram) -> Operation:
    values, element_type = program.constants[name], program.constant_types[name]
    stored, memref = values.astype(stored_dtype(element_type)), print_memref(values.shape, element_type)
    return Operation(CONSTANT, results=(name,), attributes={"value": stored}, result_types=(memref,))


# -- nests -------------------------------------------------------------------------------------------------------------


def _print_nest(nest: Nest, program: NestProgram) -> Operation:
    tensors = (*(access.tensor for access in nest.reads.values()), nest.result.tensor)
    leaves = [node for node in walk(nest.expr) if node.op in (Op.SOURCE, Op.LUT)]
    ranges = {node.name: (node.range.low, node.range.high) for node in leaves}
    for node in walk(nest.expr):
        if node.op is Op.SUM:
            ranges[SUM] = (node.range.low, node.range.high)
    roundings = {node.rounding for node in walk(nest.expr) if node.op is Op.ROUND_SHIFT} or {Rounding.EVEN}
    assert len(roundings) == 1 and SUM not in nest.reads
    values, expr = _with_names(nest)
    attributes = {
        "name": nest.name,
        "nodes": print_nodes(nest.nodes),
        "loops": tuple(f"{loop.name} {loop.trip}{' reduce' * loop.is_reduce}" for loop in nest.loops),
        "reads": {name: _print_access(access) for name, access in nest.reads.items()},
        "result": _print_access(nest.result),
        **({"values": {name: str(value) for name, value in values.items()}} if values else {}),
        "expr": str(expr),
        "ranges": ranges,
        "rounding": roundings.pop().value,
        "macs": nest.macs,
    }
    return Operation(COMPUTE, tensors, attributes=attributes, operand_types=tuple(_type(n, program) for n in tensors))


def _with_names(nest: Nest) -> tuple[dict[str, Expr], Expr]:
    """Subexpressions across lanes that are used several times, by name; and the expression with these names."""
    nodes = dict.fromkeys(walk(nest.expr))
    used = Counter(arg for node in nodes for arg in node.args)
    free = (name for name in map("v{}".format, count(1)) if name not in nest.reads)
    of_lanes = {node for node in nodes if any(inner.op in ACROSS_LANES for inner in walk(node))}
    named = {node: next(free) for node in nodes if used[node] > 1 and node in of_lanes}

    def renamed(node: Expr) -> Expr:
        return Expr(Op.SOURCE, node.range, name=named[node]) if node in named else with_args(node)

    def with_args(node: Expr) -> Expr:
        return replace(node, args=tuple(map(renamed, node.args)))

    return {name: with_args(node) for node, name in named.items()}, renamed(nest.expr)


def _type(name: str, program: NestProgram) -> str:
    if name in program.buffers:
        return print_memref(program.buffers[name].shape, program.buffers[name].type)
    return print_memref(program.constants[name].shape, program.constant_types[name])


NEST = ("name", "nodes", "loops", "reads", "result", "values", "expr", "ranges", "rounding", "macs")
"""The attributes of a nest."""


def _parse_nest(operation: Operation) -> Nest:
    require_attributes(operation, *NEST)
    name = attribute(operation, "name", str)
    loops = tuple(_parse_loop(text, name) for text in strings(operation, "loops"))
    texts = attribute(operation, "reads", dict)
    if len(operation.operands) != len(texts) + 1:
        raise CompileError(f"nest {name!r}", expected=f"a tensor for each of {', '.join(texts)} and the result")
    accesses = [
        _parse_access(tensor, text, loops, name)
        for tensor, text in zip(operation.operands, (*texts.values(), attribute(operation, "result", str)), strict=True)
    ]
    expr = _parse_expr(operation, name)
    return Nest(
        name,
        parse_nodes(strings(operation, "nodes")),
        loops,
        dict(zip(texts, accesses[:-1], strict=True)),
        accesses[-1],
        expr,
        attribute(operation, "macs", int),
    )


def _parse_loop(text: str, nest: str) -> NestLoop:
    match = re.fullmatch(r"([A-Za-z_]\w*) (\d{1,18})( reduce)?", text, re.ASCII)
    if match is None:
        raise CompileError(f"nest {nest!r}", f"{text!r} is not a loop", expected="`name trip` or `name trip reduce`")
    return NestLoop(match[1], int(match[2]), match[3] is not None)


# -- accesses ----------------------------------------------------------------------------------------------------------


def _print_access(access: Access) -> str:
    outside = "" if access.outside is None else f" outside {access.outside}"
    return ", ".join(map(_print_affine, access.index)) + outside


def _print_affine(affine: Affine) -> str:
    """`2*y + r - 1`; a constant alone is printed as it is."""
    terms = [
        (coefficient, loop if abs(coefficient) == 1 else f"{abs(coefficient)}*{loop}")
        for loop, coefficient in affine.terms
    ]
    if affine.constant or not terms:
        terms.append((affine.constant, str(abs(affine.constant))))
    text = "".join(f" {'-' if sign < 0 else '+'} {term}" for sign, term in terms)
    return text.removeprefix(" + ") if not text.startswith(" - ") else "-" + text.removeprefix(" - ")


def _parse_access(tensor: str, text: Attribute, loops: tuple[NestLoop, ...], nest: str) -> Access:
    match = re.fullmatch(r"([^\n]*?)(?: outside (-?\d{1,18}))?", text, re.ASCII) if isinstance(text, str) else None
    if match is None:
        raise CompileError(f"nest {nest!r}", f"the access is {text!r}", expected="indices, perhaps with `outside`")
    index = tuple(_parse_affine(index, loops, nest) for index in match[1].split(","))
    return Access(tensor, index, None if match[2] is None else int(match[2]))


def _parse_affine(text: str, loops: tuple[NestLoop, ...], nest: str) -> Affine:
    text = text.strip()
    if not re.fullmatch(r"-?\s*(\d{1,18}\*)?\w{1,40}(\s*[-+]\s*(\d{1,18}\*)?\w{1,40})*", text, re.ASCII):
        raise CompileError(f"nest {nest!r}", f"{text!r} is not an index", expected="a sum such as 2*y + r - 1")
    terms, constant = [], 0
    signed = re.findall(r"([-+]?)\s*(?:(\d+)\*)?(\w+)", text)
    names = {loop.name for loop in loops}
    for sign, coefficient, atom in signed:
        factor = int(coefficient or 1) * (-1 if sign == "-" else 1)
        if atom.isdigit():
            constant += factor * int(atom)
        elif atom in names:
            terms.append((atom, factor))
        else:
            raise CompileError(f"nest {nest!r}", f"the index {text!r} names {atom!r}, which is no loop")
    return Affine(tuple(terms), constant)


# -- expressions -------------------------------------------------------------------------------------------------------

_WORDS: Mapping[str, Op] = {
    op.value: op for op in Op if op.is_word and op.facts.kind is not Kind.ARRAY and op.facts.setting is Setting.NOTHING
}
"""Words whose value and range follow from their arguments alone."""

_ACROSS_LANES: Mapping[str, Op] = {op.value: op for op in ACROSS_LANES}


def _parse_expr(operation: Operation, nest: str) -> Expr:
    text = attribute(operation, "expr", str)
    ranges = attribute(operation, "ranges", dict)
    values = attribute(operation, "values", dict) if "values" in operation.attributes else {}
    try:
        rounding = Rounding(attribute(operation, "rounding", str))
        intervals = {name: Interval(low, high) for name, (low, high) in ranges.items()}
        if unread := set(ranges) - set(attribute(operation, "reads", dict)) - {SUM}:
            raise ValueError(f"ranges has {min(unread)}, which is no read")
        if not all(type(end) is int for bounds in ranges.values() for end in bounds):
            raise ValueError("the ends of ranges are integers")
        named: dict[str, Expr] = {}
        for name, value in values.items():
            named[name] = _build(ast.parse(value, mode="eval").body, intervals, rounding, named)
        return _build(ast.parse(text, mode="eval").body, intervals, rounding, named)
    except (SyntaxError, ValueError, TypeError, RecursionError, IsaError, KeyError) as error:
        raise CompileError(
            f"nest {nest!r}", f"`{text}` is not an expression with ranges for its reads: {error}"
        ) from error


def _build(node: ast.expr, ranges: Mapping[str, Interval], rounding: Rounding, named: Mapping[str, Expr]) -> Expr:
    def built(*nodes: ast.expr) -> list[Expr]:
        return [_build(inner, ranges, rounding, named) for inner in nodes]

    match node:
        case ast.Constant(value=int(value)):
            return const(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return const(-value)
        case ast.Name(id=name) if name in named:
            return named[name]
        case ast.Name(id=name):
            return Expr(Op.SOURCE, ranges[name], name=name)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in SIGNS:
            return make(SIGNS[type(operator)], *built(left, right))
        case ast.Compare(left=left, ops=[compare], comparators=[right]) if type(compare) in SIGNS:
            return make(SIGNS[type(compare)], *built(left, right))
        case ast.Call(func=ast.Name(id="sum"), args=[term]):
            return Expr(Op.SUM, ranges[SUM], tuple(built(term)))
        case ast.Call(func=ast.Name(id="lut"), args=[ast.Name(id=table), index]):
            return Expr(Op.LUT, ranges[table], tuple(built(index)), name=table)
        case ast.Call(func=ast.Name(id="round_shift"), args=[_, _] as args):
            return make(Op.ROUND_SHIFT, *built(*args), scope=scope_of_rounding(rounding))
        case ast.Call(func=ast.Name(id="wrap"), args=[value, ast.Name(id=element_type)]):
            return make(Op.WRAP, *built(value), type=parse_integer_type(element_type))
        case ast.Call(func=ast.Name(id=word), args=[reduced]) if word in _ACROSS_LANES:
            return across_lanes(_ACROSS_LANES[word], *built(reduced))
        case ast.Call(func=ast.Name(id=word), args=args) if word in _WORDS and len(args) == _WORDS[word].facts.arity:
            return make(_WORDS[word], *built(*args))
    raise ValueError(f"`{ast.unparse(node)}` is not part of the language")
