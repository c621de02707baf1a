"""The limit of a tensor: a step for each rounding since what the machine holds."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tilewright.values.limits import TensorLimits


def chain(*steps: tuple[str, float]) -> onnx.ModelProto:
    """x → quantise and dequantise → for each step: an operator, quantise to a scale, dequantise; tensors q0, q1, …"""
    nodes, constants = [], []
    last = "x"
    for number, (operator, scale) in enumerate((("", 0.5), *steps)):
        constants.append(numpy_helper.from_array(np.float32(scale), f"s{number}"))
        if operator:
            nodes.append(helper.make_node(operator, [last], [f"y{number}"]))
            last = f"y{number}"
        nodes.append(helper.make_node("QuantizeLinear", [last, f"s{number}"], [f"q{number}"]))
        last = f"d{number}"
        nodes.append(helper.make_node("DequantizeLinear", [f"q{number}", f"s{number}"], [last]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in ("x", last))
    return helper.make_model(helper.make_graph(nodes, "chain", [x], [y], constants))


def test_an_operator_may_round_once() -> None:
    assert TensorLimits(chain(("Sigmoid", 0.1), ("Tanh", 0.1)), {"q1", "q2"}).of("q2") == 1


def test_a_tensor_that_is_not_held_adds_a_step() -> None:
    assert TensorLimits(chain(("Sigmoid", 0.1), ("Tanh", 0.1)), {"q2"}).of("q2") == 2


def test_the_limit_of_an_output_is_that_of_its_integers() -> None:
    assert TensorLimits(chain(("Sigmoid", 0.1), ("Tanh", 0.1)), {"q1", "d2"}).of("d2") == 1


def test_a_move_that_keeps_the_scale_rounds_nothing() -> None:
    assert TensorLimits(chain(("Sigmoid", 0.1), ("Flatten", 0.1), ("Tanh", 0.1)), {"q1", "q3"}).of("q3") == 1
    assert TensorLimits(chain(("Sigmoid", 0.1), ("Flatten", 0.2), ("Tanh", 0.1)), {"q1", "q3"}).of("q3") == 2


def test_an_input_is_quantised_by_the_host_exactly() -> None:
    assert TensorLimits(chain(("Sigmoid", 0.1)), {"q1"}).of("q1") == 1
