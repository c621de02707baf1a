"""Variables of a file as states, and what of them is refused; tests/formats/test_tflite_states.py runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.read import read_tflite

FIRST = np.int8([[1, 2, 3]])


class Variable:
    """A file whose result is a variable plus its input; the variable is that sum from then on."""

    def __init__(self, first: Any = FIRST, init: int = 1) -> None:
        self.file = TfliteFile()
        self.init = self.file.other()
        self.x, self.y = self.file.input("x", (1, 3)), self.file.tensor("y", (1, 3))
        self.read, self.handle = self.file.tensor("read", (1, 3)), self.file.tensor("handle", (), None, dtype=np.void)
        self.file.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=init)
        self.file.operator("VAR_HANDLE", [], self.handle, "VarHandleOptions", SharedName="sum")
        self.file.operator("READ_VARIABLE", [self.handle], self.read, "ReadVariableOptions")
        self.file.operator("ADD", [self.read, self.x], self.y, "AddOptions")
        self.file.operator("ASSIGN_VARIABLE", [self.handle, self.y], [], "AssignVariableOptions")
        if first is not None:
            own = self.init.tensor("handle", (), None, dtype=np.void)
            self.init.operator("VAR_HANDLE", [], own, "VarHandleOptions", SharedName="sum")
            value = self.init.constant("first", first)
            self.init.operator("ASSIGN_VARIABLE", [own, value], [], "AssignVariableOptions")

    def content(self) -> bytes:
        return self.file.content(self.y)


def test_a_variable_is_a_state() -> None:
    made = Variable()
    model = read_tflite(made.content(), "net")
    (state,) = model.states
    assert (state.name, state.input, state.output) == ("sum", made.read.index, made.y.index)
    assert state.initial.tolist() == [[1, 2, 3]]
    assert [operator.kind for operator in model.operators] == ["ADD"]


def test_a_name_that_a_tensor_has_is_another() -> None:
    made = Variable()
    made.file.tensor("sum", (1, 3))
    assert read_tflite(made.content(), "net").states[0].name == "sum'"


def _computed(made: Variable) -> None:
    a = made.init.tensor("a", (1, 3))
    made.init.operator("RELU", [a], made.init.tensor("b", (1, 3)))


def _assigned_unknown(made: Variable) -> None:
    handle = made.init.tensor("h", (), None, dtype=np.void)
    made.init.operator("ASSIGN_VARIABLE", [handle, made.init.constant("c", np.int8([1]))], [], "AssignVariableOptions")


def _read_of(handle: Callable[[Variable], Tensor]) -> Callable[[Variable], None]:
    def change(made: Variable) -> None:
        z = made.file.tensor("z", (1, 3), 0.5)
        made.file.operator("READ_VARIABLE", [handle(made)], z, "ReadVariableOptions")

    return change


def _with_data(made: Variable) -> None:
    constant = made.file.constant("c", np.int8([[1, 2, 3]]), [0.5])
    made.file.tensors[constant.index] = type(constant)(
        **{**{name: getattr(constant, name) for name in constant.__dataclass_fields__}, "extra": {"IsVariable": True}}
    )


def _nothing(made: Variable) -> None:
    pass


REFUSED: list[tuple[dict[str, Any], Callable[[Variable], None], str]] = [
    ({"init": 2}, _nothing, "operator 0 (CALL_ONCE): names subgraph 2; there are 2"),
    ({"init": 0}, _nothing, "operator 0 (CALL_ONCE): names subgraph 0; there are 2"),
    (
        {"first": None}, _nothing,
        "variable 'sum': is read before anything is assigned to it; expected a CALL_ONCE that does",
    ),
    (
        {"first": np.int8([1, 2])}, _nothing,
        "variable 'sum': begins with int8 [2], but is read as int8 [1, 3]",
    ),
    (
        {"first": np.float32([[1, 2, 3]])}, _nothing,
        "variable 'sum': begins with float32 [1, 3], but is read as int8 [1, 3]",
    ),
    (
        {}, _computed,
        "operator 2 (RELU) of subgraph 1: has no lowering where variables get their first values; expected constants "
        "that are assigned",
    ),
    (
        {}, _assigned_unknown,
        "operator 2 (ASSIGN_VARIABLE) of subgraph 1: assigns what is computed; expected a constant",
    ),
    (
        {}, _read_of(lambda made: made.x),
        "operator 5 (READ_VARIABLE): reads no variable that a VAR_HANDLE names",
    ),
    (
        {}, _read_of(lambda made: made.handle),
        "operator 5 (READ_VARIABLE): tensor 4 'z': has another form or scale than tensor 1 'y', which it reads",
    ),
    ({}, _with_data, "tensor 4 'c': is a variable with data; expected none: it begins with zeros"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "change", "message"), REFUSED)
def test_refuses(changes: dict[str, Any], change: Callable[[Variable], None], message: str) -> None:
    made = Variable(**changes)
    change(made)
    with pytest.raises(CompileError) as error:
        read_tflite(made.content(), "net")
    assert str(error.value) == f"net: {message}"


def test_a_variable_that_no_operator_changes_is_a_constant() -> None:
    file = TfliteFile()
    x, y = file.input("x", (1, 3), 0.5, 7), file.tensor("y", (1, 3))
    variable = file.tensor("v", (1, 3), 0.5, 7, IsVariable=True)
    file.operator("ADD", [x, variable], y, "AddOptions")
    value = read_tflite(file.content(y), "net").tensors[variable.index].value
    assert value is not None and value.tolist() == [[7, 7, 7]]
