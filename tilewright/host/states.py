"""What lasts from run to run in a network with state: which outputs the next run is given, and how the first begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class State:
    """Of an input that holds state: the output that the next run is given for it, and what the first is given."""

    output: str
    initial: NDArray[Any]


def states(model: str | Path | bytes) -> Mapping[str, State]:
    """The state of a TFLite file, by the inputs of its program; none for any other file.

        kept = {name: state.initial for name, state in tilewright.states("net.tflite").items()}
        for frame in frames:
            outputs = program.run({"frame": frame, **kept}).outputs
            kept = {name: outputs[state.output] for name, state in tilewright.states("net.tflite").items()}

    Raises CompileError for a file that cannot be read.
    """
    from tilewright.compiler.errors import CompileError
    from tilewright.compiler.importers.tflite.read import is_tflite, read_tflite

    name = "the model" if isinstance(model, bytes) else str(model)
    try:
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
    except OSError as error:
        raise CompileError(name, f"cannot be read: {error.strerror or error}") from error
    if not is_tflite(content):
        return {}
    found = read_tflite(content, name).states
    return {state.name: State(state.next_name, np.array(state.initial)) for state in found}
