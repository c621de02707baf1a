"""What a program takes and gives: the file's inputs and outputs, and beside them what lasts from run to run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.compiler.importers.tflite.model import StateInfo, TfliteModel


@dataclass(frozen=True, slots=True)
class StateTensor:
    """An input or output: the tensor of the file, and its name in the program."""

    index: int
    name: str


def given(model: TfliteModel) -> tuple[StateTensor, ...]:
    """The inputs of the program."""
    return (
        *(StateTensor(index, model.tensors[index].name) for index in model.inputs),
        *(StateTensor(state.input, state.name) for state in model.states),
    )


def results(model: TfliteModel) -> tuple[StateTensor, ...]:
    """The outputs of the program."""
    return (
        *(StateTensor(index, model.tensors[index].name) for index in model.outputs),
        *(StateTensor(state.output, state.next_name) for state in model.states),
    )


def remarks_of_states(model: TfliteModel) -> dict[str, str]:
    """What is to be said of each: where it is found, and what it begins with."""
    return {f"state {state.name}": _remark(state) for state in model.states}


def _remark(state: StateInfo) -> str:
    values = np.unique(state.initial)
    begins = f"with all {values[0]}" if values.size == 1 else "with the values that `tilewright.states` gives"
    return f"an input; the next run is given the output {state.next_name}. The first run begins {begins}"
