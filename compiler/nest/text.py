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

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, parse_nodes, print_nodes
from tilewright.compiler.nest.access_text import parse_access, parse_loop, print_access
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
from tilewright.compiler.nest.expression_text import parse_expression, print_expression
from tilewright.compiler.nest.nest import Buffer, Nest, NestProgram, stored_dtype
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
from tilewright.compiler.text.mlir import MlirBlock, MlirOperation
from tilewright.compiler.text.parser import parse_program
from tilewright.compiler.text.printer import print_operation
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.program.program import Tensor

PROGRAM = DIALECT + "program"
CONSTANT = DIALECT + "constant"


def print_nests(program: NestProgram) -> str:
    """The program as text; `parse_nests` gives an equal program back."""
    return print_operation(nests_operation(program)) + "\n"


def parse_nests(text: str) -> NestProgram:
    """The nest program of a text; raises CompileError for a fault of the text."""
    return read_nests(parse_program(text))


def nests_operation(program: NestProgram) -> MlirOperation:
    """The program as an operation, for a text that holds more; `read_nests` gives an equal program back."""
    constants = [_print_constant(name, program) for name in program.constants]
    buffers = [
        MlirOperation(BUFFER, results=(buffer.name,), result_types=(print_memref(buffer.shape, buffer.type),))
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
    return MlirOperation(PROGRAM, attributes=attributes, region=MlirBlock((), (*constants, *buffers, *parts, *nests)))


def read_nests(whole: MlirOperation) -> NestProgram:
    """The nest program of an operation; raises CompileError for a fault of it."""
    if whole.name != PROGRAM or whole.region is None:
        raise CompileError(fact=f"expected a {PROGRAM!r} with a region, got {whole.name!r}")
    with at_line(whole):
        require_attributes(whole, "name", "inputs", "outputs", "remarks")
        inputs, outputs = (tuple(map(parse_tensor, attribute(whole, name, tuple))) for name in ("inputs", "outputs"))
        program = NestProgram(attribute(whole, "name", str), (), {}, {}, {}, inputs, outputs, parse_remarks(whole))
    reader = _NestTextReader(inputs)
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


class _NestTextReader:
    """Collects the tensors and the nests of a text."""

    def __init__(self, inputs: tuple[Tensor, ...]) -> None:
        self._inputs = inputs
        self.constants: dict[str, NDArray[Any]] = {}
        self.types: dict[str, IntegerType] = {}
        self.buffers: dict[str, Buffer] = {}
        self.nests: list[Nest] = []

    def read(self, operation: MlirOperation) -> None:
        match operation:
            case MlirOperation(name="nest.constant", results=(name,), result_types=(memref,)):
                require_attributes(operation, "value")
                self._constant(name, attribute(operation, "value", np.ndarray), memref)
            case MlirOperation(name="nest.buffer", results=(name,), result_types=(memref,)):
                require_attributes(operation)
                self.buffers[name] = Buffer(name, *parse_memref(memref))
            case MlirOperation(name="nest.part", results=(), operands=(tensor, joined)):
                require_attributes(operation, "first")
                self.buffers[joined] = with_part(operation, tensor, joined, self.buffers, self._inputs)
            case MlirOperation(name="nest.compute", results=()):
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


def _print_constant(name: str, program: NestProgram) -> MlirOperation:
    values, element_type = program.constants[name], program.constant_types[name]
    stored, memref = values.astype(stored_dtype(element_type)), print_memref(values.shape, element_type)
    return MlirOperation(CONSTANT, results=(name,), attributes={"value": stored}, result_types=(memref,))


# -- nests -------------------------------------------------------------------------------------------------------------


def _print_nest(nest: Nest, program: NestProgram) -> MlirOperation:
    tensors = (*(access.tensor for access in nest.reads.values()), nest.result.tensor)
    attributes = {
        "name": nest.name,
        "nodes": print_nodes(nest.nodes),
        "loops": tuple(f"{loop.name} {loop.trip}{' reduce' * loop.is_reduce}" for loop in nest.loops),
        "reads": {name: print_access(access) for name, access in nest.reads.items()},
        "result": print_access(nest.result),
        **print_expression(nest),
        "macs": nest.macs,
        **({"layer": nest.layer} if nest.layer else {}),
    }
    return MlirOperation(
        COMPUTE, tensors, attributes=attributes, operand_types=tuple(_type(n, program) for n in tensors)
    )


def _type(name: str, program: NestProgram) -> str:
    if name in program.buffers:
        return print_memref(program.buffers[name].shape, program.buffers[name].type)
    return print_memref(program.constants[name].shape, program.constant_types[name])


NEST = ("name", "nodes", "loops", "reads", "result", "values", "expr", "ranges", "rounding", "macs", "layer")
"""The attributes of a nest."""


def _parse_nest(operation: MlirOperation) -> Nest:
    require_attributes(operation, *NEST)
    name = attribute(operation, "name", str)
    loops = tuple(parse_loop(text, name) for text in strings(operation, "loops"))
    texts = attribute(operation, "reads", dict)
    if len(operation.operands) != len(texts) + 1:
        raise CompileError(f"nest {name!r}", expected=f"a tensor for each of {', '.join(texts)} and the result")
    accesses = [
        parse_access(tensor, text, loops, name)
        for tensor, text in zip(operation.operands, (*texts.values(), attribute(operation, "result", str)), strict=True)
    ]
    expr = parse_expression(operation, name)
    return Nest(
        name,
        parse_nodes(strings(operation, "nodes")),
        loops,
        dict(zip(texts, accesses[:-1], strict=True)),
        accesses[-1],
        expr,
        attribute(operation, "macs", int),
        attribute(operation, "layer", str) if "layer" in operation.attributes else "",
    )
