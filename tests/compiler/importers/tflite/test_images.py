"""Operators on images take as many operands as TFLite gives them."""

import pytest

from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.tflite.images import IMAGES
from tilewright.compiler.importers.tflite.model import OperatorInfo, TfliteModel
from tilewright.compiler.importers.tflite.operation import TfliteOperation
from tilewright.compiler.importers.tflite.writer import OnnxWriter

OPERANDS = {"SPACE_TO_DEPTH": 1, "DEPTH_TO_SPACE": 1, "RESIZE_NEAREST_NEIGHBOR": 2, "RESIZE_BILINEAR": 2}
"""A size is an operand, a block an option."""


@pytest.mark.parametrize(("kind", "operands"), OPERANDS.items())
@pytest.mark.parametrize("more", [-1, 1])
def test_refuses_more_and_fewer_operands(kind: str, operands: int, more: int) -> None:
    operator = OperatorInfo(0, kind, tuple(range(operands + more)), (3,), {"table": IMAGES[kind].options})
    writer = OnnxWriter(TfliteModel("net", (), (operator,), (), ()))
    writer.begin(operator)
    with pytest.raises(CompileError) as error:
        TfliteOperation(operator, IMAGES[kind], writer)
    assert str(error.value) == f"operator 0 ({kind}): has {operands + more} inputs; expected {operands}"
