"""Nodes of the host as C: a function for each, which finds its tensors at places in the arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tilewright.bundle.c_text import array, comment
from tilewright.bundle.host_steps import HostSteps, NodeStep, Step, TensorKind
from tilewright.bundle.nodes.code import C_TYPES, CNode, Code, NoCode, NodeOperand, literals
from tilewright.bundle.nodes.table import operator_of

ALIGNMENT_BYTES = 8
"""Of each tensor in the arena: the widest element type's."""


@dataclass(frozen=True, slots=True)
class HostFunctions:
    """The text of all functions, the call of each by the number of its step, and whether all results are exact."""

    text: str
    calls: Mapping[int, str]
    is_exact: bool


def host_functions(steps: HostSteps, places: Mapping[str, int]) -> tuple[HostFunctions, list[tuple[str, NoCode]]]:
    """A function for each node, and the nodes that have none, by name, with the reason."""
    texts: list[str] = []
    calls: dict[int, str] = {}
    constants: dict[str, str] = {}
    refused = [(node.name, error) for node, error in steps.refused]
    unknown = {name for name, _ in refused}
    is_exact = True
    for number, step in enumerate(steps.steps):
        if not isinstance(step, NodeStep) or step.node.name in unknown:
            continue
        try:
            node = _node(step, steps.kinds)
            operator = operator_of(node)
            code = Code(f"node{number}")
            texts += _function(f"node{number}", step.node, code, operator.write(node, code), step, places, constants)
        except NoCode as error:
            refused.append((step.node.name, error))
            continue
        is_exact &= operator.is_exact
        calls[number] = f"node{number}(values);"
    return HostFunctions("\n".join(texts), calls, is_exact), refused


def values_places(
    steps: Sequence[Step], kinds: Mapping[str, TensorKind], kept: Sequence[str]
) -> tuple[dict[str, int], int]:
    """Where each tensor lies, from its first use to its last; those that are `kept` for ever. And the bytes of all.

    A place is given back after the last step that reads it: the first gap that is large enough takes the next tensor.
    """
    first: dict[str, int] = dict.fromkeys(kept, -1)
    last: dict[str, int] = dict.fromkeys(kept, len(steps))
    for number, step in enumerate(steps):
        for key in (*step.reads, *step.writes):
            first.setdefault(key, number)
            last[key] = max(last.get(key, number), number)
    places: dict[str, int] = {}
    for key in sorted(first, key=lambda each: first[each]):
        alive = [other for other in places if last[other] >= first[key]]
        place = 0
        for other in sorted(alive, key=lambda each: places[each]):
            if place + bytes_of(kinds[key]) <= places[other]:
                break
            place = max(place, places[other] + bytes_of(kinds[other]))
        places[key] = place
    return places, max((places[key] + bytes_of(kinds[key]) for key in places), default=0)


def bytes_of(kind: TensorKind) -> int:
    """What a tensor takes, up to where the next one may begin."""
    size = int(np.prod(kind.shape, dtype=np.int64)) * np.dtype(kind.dtype).itemsize
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _node(step: NodeStep, kinds: Mapping[str, TensorKind]) -> CNode:
    """The node with its operands. Raises NoCode for one of another domain than ONNX's."""
    if step.node.domain not in ("", "ai.onnx"):
        raise NoCode(f"it is of the domain {step.node.domain}")
    inputs: list[NodeOperand | None] = []
    for position, operand in enumerate(step.operands):
        if operand is None:
            inputs.append(None)
        elif isinstance(operand, str):
            kind = kinds[operand]
            inputs.append(NodeOperand(f"x{position}", kind.dtype, kind.shape))
        else:
            inputs.append(NodeOperand(f"constant{position}", operand.dtype.name, operand.shape, operand))
    outputs = [NodeOperand(f"y{at}", kinds[key].dtype, kinds[key].shape) for at, key in enumerate(step.writes)]
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in step.node.attribute}
    return CNode(step.node.op_type, attributes, tuple(inputs), tuple(outputs), step.opset)


def _function(
    name: str,
    node: onnx.NodeProto,
    code: Code,
    statements: Sequence[str],
    step: NodeStep,
    places: Mapping[str, int],
    constants: dict[str, str],
) -> list[str]:
    """The tables and constants of a function that are new, and the function."""
    texts, pointers = list(code.tables), []
    for operand in code.names.values():
        kind = C_TYPES[operand.dtype]
        if operand.value is not None:
            known = f"{kind} {operand.value.tobytes().hex()}"
            if known not in constants:
                constants[known] = f"shared{len(constants)}"
                texts.append(array(kind, constants[known], literals(operand)))
            pointers.append(f"const {kind} *{operand.name} = {constants[known]};")
            continue
        number = int(operand.name[1:])
        if operand.name.startswith("y"):
            place = places[step.writes[number]]
            pointers.append(f"{kind} *{operand.name} = ({kind} *)(void *)(values + {place}U);")
            continue
        key = step.operands[number]
        assert isinstance(key, str)
        pointers.append(f"const {kind} *{operand.name} = (const {kind} *)(const void *)(values + {places[key]}U);")
    lines = [*pointers, *(f"{each};" for each in code.variables), *statements]
    body = "\n".join(f"    {line}" for line in lines)
    about = comment(f"{node.op_type} {node.name}")
    texts.append(f"/* {about} */\nstatic void {name}(uint8_t *values)\n{{\n{body}\n}}\n")
    return texts
