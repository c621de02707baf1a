"""Variables of a file, which last from run to run, become states: something given to a run, and something it gives.

There are two kinds. A *resource* has a name; VAR_HANDLE looks it up, READ_VARIABLE and ASSIGN_VARIABLE do what they
say, and a subgraph that CALL_ONCE names gives it its first value. A tensor that is marked as a variable belongs to one
operator, which changes it in its place; it begins with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.model import (
    OperatorInfo,
    StateInfo,
    SubgraphInfo,
    TensorInfo,
    TfliteModel,
)
from tilewright.isa.program.stored_types import DEFAULT_TYPE

CHANGING = ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
"""Operators that change tensors that are variables."""


def resolve_variables(graphs: Sequence[SubgraphInfo]) -> TfliteModel:
    """The network, which is the first graph, with its variables as states; raises CompileError."""
    main = graphs[0]
    walk = _VariableWalk(graphs)
    kept = tuple(operator for operator in map(walk.step, main.operators) if operator is not None)
    tensors, taken = list(main.tensors), {tensor.name for tensor in main.tensors}
    states = []
    for name, index in walk.first.items():
        if name in walk.assigned:
            states.append(StateInfo(_free(name, taken), index, walk.current[name], walk.initial_of(name)))
        else:
            tensors[index] = replace(tensors[index], value=walk.initial_of(name))
    for index in _changed_in_place(tensors, kept, main.inputs):
        states.append(StateInfo(_free(tensors[index].name, taken, index), index, index, _zeros(tensors[index])))
    outputs = tuple(walk.alias.get(index, index) for index in main.outputs)
    return TfliteModel(main.name, tuple(tensors), kept, main.inputs, outputs, tuple(states))


@dataclass
class _VariableWalk:
    """The operators so far: which tensor each variable is now, and which it was when it was first read."""

    graphs: Sequence[SubgraphInfo]
    handles: dict[int, str] = field(default_factory=dict)  # tensor → variable
    initial: dict[str, NDArray[Any]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    current: dict[str, int] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    alias: dict[int, int] = field(default_factory=dict)  # what is read → what was assigned

    def step(self, operator: OperatorInfo) -> OperatorInfo | None:
        """The operator with what it really reads; None for one that only works on variables."""
        match operator.kind:
            case "CALL_ONCE":
                self._call_once(operator)
            case "VAR_HANDLE":
                self.handles[_only(operator.outputs, operator, "outputs")] = _name(operator)
            case "READ_VARIABLE":
                self._read(operator)
            case "ASSIGN_VARIABLE":
                handle, value = _two(operator)
                name = self._variable(handle, operator)
                self.current[name] = self.alias.get(value, value)
                self.assigned.add(name)
            case _:
                inputs = tuple(None if index is None else self.alias.get(index, index) for index in operator.inputs)
                return replace(operator, inputs=inputs)
        return None

    def initial_of(self, name: str) -> NDArray[Any]:
        """What a variable begins with, as the tensor that reads it has it; raises CompileError if nothing says it."""
        tensor = self.graphs[0].tensors[self.first[name]]
        if name not in self.initial:
            raise CompileError(
                f"variable {name!r}",
                "is read before anything is assigned to it",
                expected="a CALL_ONCE that does",
            )
        value = self.initial[name]
        if (value.shape, value.dtype) != (tensor.shape, tensor.dtype):
            form = f"{value.dtype.name} {list(value.shape)}"
            fact = f"begins with {form}, but is read as {tensor.dtype.name} {list(tensor.shape)}"
            raise CompileError(f"variable {name!r}", fact)
        return value

    def _call_once(self, operator: OperatorInfo) -> None:
        position = operator.options.get("init_subgraph_index", 0)
        if not isinstance(position, int) or not 0 < position < len(self.graphs):
            raise CompileError(str(operator), f"names subgraph {position}; there are {len(self.graphs)}")
        self.initial |= _assigned_constants(self.graphs[position], position)

    def _read(self, operator: OperatorInfo) -> None:
        name = self._variable(_only(operator.inputs, operator, "inputs"), operator)
        result = _only(operator.outputs, operator, "outputs")
        if name not in self.current:
            self.first[name] = self.current[name] = result
            return
        before, read = (self.graphs[0].tensors[index] for index in (self.current[name], result))
        if (before.shape, before.dtype, before.quantized) != (read.shape, read.dtype, read.quantized):
            raise CompileError(f"{operator}: {read}", f"has another form or scale than {before}, which it reads")
        self.alias[result] = before.index

    def _variable(self, handle: int | None, operator: OperatorInfo) -> str:
        if handle not in self.handles:
            raise CompileError(str(operator), "reads no variable that a VAR_HANDLE names")
        return self.handles[handle]


# -- resources ---------------------------------------------------------------------------------------------------------


def _assigned_constants(graph: SubgraphInfo, position: int) -> Mapping[str, NDArray[Any]]:
    """What a subgraph assigns to variables; raises CompileError if it computes anything."""
    handles: dict[int, str] = {}
    found: dict[str, NDArray[Any]] = {}
    for operator in graph.operators:
        place = f"{operator} of subgraph {position}"
        if operator.kind == "VAR_HANDLE":
            handles[_only(operator.outputs, operator, "outputs")] = _name(operator)
        elif operator.kind == "ASSIGN_VARIABLE":
            handle, index = _two(operator)
            value = graph.tensors[index].value
            if handle not in handles or value is None:
                raise CompileError(place, "assigns what is computed", expected="a constant")
            found[handles[handle]] = value
        else:
            raise CompileError(
                place, "has no lowering where variables get their first values", expected="constants that are assigned"
            )
    return found


def _name(operator: OperatorInfo) -> str:
    container, name = (str(operator.options.get(key) or "") for key in ("container", "shared_name"))
    return f"{container}/{name}" if container else name or "variable"


def _only(indices: Sequence[int | None], operator: OperatorInfo, what: str) -> int:
    if len(indices) != 1 or indices[0] is None:
        raise CompileError(str(operator), f"has {len(indices)} {what}", expected="1")
    return indices[0]


def _two(operator: OperatorInfo) -> tuple[int, int]:
    match operator.inputs:
        case (int(a), int(b)):
            return a, b
    raise CompileError(str(operator), f"has {len(operator.inputs)} inputs", expected="a variable and its value")


# -- variables of one operator -----------------------------------------------------------------------------------------


def _changed_in_place(tensors: list[TensorInfo], operators: Sequence[OperatorInfo], inputs: Sequence[int]) -> list[int]:
    """The variables that operators change; none is an input. One that none changes is a constant from now on."""
    readers = {index: operator for operator in operators for index in operator.inputs if index is not None}
    changed = []
    for tensor in [tensor for tensor in tensors if tensor.is_variable and tensor.index not in inputs]:
        if tensor.value is not None:
            raise CompileError(str(tensor), "is a variable with data", expected="none: it begins with zeros")
        if tensor.index in readers and readers[tensor.index].kind in CHANGING:
            changed.append(tensor.index)
        elif tensor.index in readers:
            tensors[tensor.index] = replace(tensor, value=_zeros(tensor))
    return changed


def _zeros(tensor: TensorInfo) -> NDArray[Any]:
    """What LiteRT resets a variable to: of the default type, the zero point."""
    zero = tensor.quantized.zero_points[0] if tensor.quantized is not None and tensor.dtype == DEFAULT_TYPE.dtype else 0
    return np.full(tensor.shape, zero, tensor.dtype)


def _free(name: str, taken: set[str], own: int | None = None) -> str:
    """A name that no tensor of the file has, unless it is the variable's own."""
    if own is not None:
        return name
    while name in taken:
        name += "'"
    taken.add(name)
    return name
