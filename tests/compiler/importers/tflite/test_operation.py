"""An option that a row does not read is refused."""

import numpy as np
import pytest

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.model import OperatorInfo, Quantized, TensorInfo, TfliteModel
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation
from tilewright.compiler.importers.tflite.writer import OnnxWriter


def test_what_is_left_over_is_refused() -> None:
    operator = OperatorInfo(3, "TILT", (0,), (1,), {"table": "TiltOptions", "angle": 30, "speed": 2, "colour": 5})
    tensors = tuple(
        TensorInfo(i, name, (1,), np.dtype(np.int8), Quantized((0.5,), (0,))) for i, name in enumerate("xy")
    )
    writer = OnnxWriter(TfliteModel("net", tensors, (operator,), (), ()))
    writer.begin(operator)
    operation = TfliteOperation(operator, OperatorRow(lambda _: None, "TiltOptions"), writer)
    assert operation.integer("angle") == 30
    operation.ignore("colour")
    with pytest.raises(CompileError) as error:
        operation.finish()
    assert str(error.value) == "operator 3 (TILT): option speed = 2 has no lowering"
    assert operation.integer("speed") == 2
    operation.finish()
