"""A recurrent node that is wrong is refused: the error says what was expected and what came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.compiler.errors import CompileError
from tilewright.quantization.recurrent.write_out import write_out

SHAPES = {"W": (1, 20, 3), "R": (1, 20, 5), "B": (1, 40), "P": (1, 15), "initial_h": (1, 2, 5)}


def refusal(computed: str = "", lengths: tuple[int, ...] = (4, 4), kind: str = "LSTM", **changes: Any) -> str:
    """The error about a node with 4 steps, 2 sequences, 3 features and 5 hidden values, with changes of it."""
    shapes = SHAPES | {name: value for name, value in changes.items() if name in SHAPES}
    attributes = {"hidden_size": 5} | {name: value for name, value in changes.items() if name not in SHAPES}
    names = ["X", "W", "R", "B", "sequence_lens", "initial_h", "", "P"][: 8 if kind == "LSTM" else 6]
    constants = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    values = [numpy_helper.from_array(np.array(lengths, np.int32), "sequence_lens")]
    values += [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["Y"], "cell", **attributes)],
        "wrong",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, (4, 2, 3))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        [value for value in values if value.name != computed],
    )
    with pytest.raises(CompileError) as caught:
        write_out(helper.make_model(graph))
    return str(caught.value)


KEEP = "expected a constant. Leave it in float, on the host, with --keep cell"
ACTIVATIONS = (
    "Relu, Tanh, Sigmoid, Softsign, Softplus, LeakyRelu, ThresholdedRelu, Elu, HardSigmoid, Affine, ScaledTanh"
)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"W": (1, 20, 4)}, "its W has shape [1, 20, 4]; expected [1, 20, 3]"),
        ({"W": (2, 20, 3)}, "its W has shape [2, 20, 3]; expected [1, 20, 3]"),
        ({"R": (1, 20, 6)}, "its R has shape [1, 20, 6]; expected [1, 20, 5]"),
        ({"hidden_size": 6}, "its W has shape [1, 20, 3]; expected [1, 24, 3]"),
        ({"B": (1, 20)}, "its B has shape [1, 20]; expected [1, 40]"),
        ({"P": (1, 5)}, "its P has shape [1, 5]; expected [1, 15]"),
        ({"initial_h": (2, 5)}, "its initial_h has shape [2, 5]; expected [1, 2, 5]"),
        ({"lengths": (4,)}, "its sequence_lens has shape [1]; expected [2]"),
        ({"lengths": (4, 5)}, "its sequence_lens has 5; expected 1 to 4, the steps of X"),
        ({"lengths": (0, 4)}, "its sequence_lens has 0; expected 1 to 4, the steps of X"),
        ({"computed": "sequence_lens"}, f"its sequence_lens ('sequence_lens') is computed; {KEEP}"),
        ({"computed": "R"}, f"its R ('R') is computed; {KEEP}"),
        ({"direction": "both"}, "direction = 'both'; expected forward, reverse or bidirectional"),
        ({"clip": -1.0}, "clip = -1; expected more than 0"),
        ({"activations": ["Tanh"]}, "it has 1 activation; expected 3, which is 3 for each direction"),
        ({"activations": ["Tanh", "Tanh", "Gelu"]}, f"unknown activation 'Gelu'; expected one of: {ACTIVATIONS}"),
        (
            {"activations": ["Tanh", "Tanh", "ScaledTanh"]},
            "activation ScaledTanh has no alpha; expected a number in activation_alpha",
        ),
        (
            {"activation_alpha": [0.5]},
            "activation_alpha has 1 more number than its activations take; "
            "expected one for each activation that has it",
        ),
    ],
)
def test_refuses_what_does_not_fit(changes: dict[str, Any], fact: str) -> None:
    assert refusal(**changes) == f"node 'cell' (LSTM): {fact}"


def test_names_the_attributes_that_there_are() -> None:
    known = "activation_alpha, activation_beta, activations, clip, direction, hidden_size, layout"
    message = refusal(kind="RNN", W=(1, 5, 3), R=(1, 5, 5), B=(1, 10), output_sequence=1)
    assert message == f"node 'cell' (RNN): unknown attribute 'output_sequence'; it has: {known}"


def test_reads_the_hidden_size_from_the_weights() -> None:
    graph = helper.make_graph(
        [helper.make_node("RNN", ["X", "W", "R"], ["Y"], "cell")],
        "small",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, (2, 1, 3))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, (2, 1, 1, 5))],
        [numpy_helper.from_array(np.ones((1, 5, size), np.float32), name) for name, size in (("W", 3), ("R", 5))],
    )
    kinds = [node.op_type for node in write_out(helper.make_model(graph)).model.graph.node]
    assert "Tanh" in kinds and "RNN" not in kinds
