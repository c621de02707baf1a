"""Open sizes of inputs: fixed as asked, the same program as a model that was fixed before, and every mistake named."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.compiler.models import conv_model
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.importers.input_shapes import Shapes, parse_shape, parse_shapes
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine


def opened(*symbols: str | int | None) -> onnx.ModelProto:
    """A convolution whose input `x`, really [1, 3, 8, 8], has these sizes."""
    model = conv_model(np.random.default_rng(1))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, symbols))
    del model.graph.value_info[:]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, [None] * 4))
    return model


def refusal(model: onnx.ModelProto, shapes: Shapes) -> str:
    with pytest.raises(CompileError) as refused:
        import_onnx(model.SerializeToString(), shapes)
    return str(refused.value)


def test_reads_a_shape() -> None:
    assert parse_shape("image=1x3x224x224") == ("image", (1, 3, 224, 224))
    assert parse_shape("a=b:0=7") == ("a=b:0", (7,))


@pytest.mark.parametrize("text", ["", "x", "x=", "=1x3", "x=1x", "x=1,3", "x=0x3", "x=-1", "x=1X3", f"x={'9' * 30}"])
def test_a_shape_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CompileError) as refused:
        parse_shape(text)
    assert str(refused.value) == (f"--shape {text}: expected an input's name and its sizes, such as image=1x3x224x224")


@pytest.mark.parametrize("symbols", [("N", 3, 8, 8), ("N", 3, "H", "H"), (None, 3, None, None)])
def test_an_open_model_compiles_to_the_program_of_the_fixed_one(symbols: tuple[str | int | None, ...]) -> None:
    machine = load_machine("tiny8")
    options = Options(shapes={"x": (1, 3, 8, 8)})
    fixed = compile_model(opened(1, 3, 8, 8), machine)
    assert to_bytes(compile_model(opened(*symbols), machine, options)) == to_bytes(fixed)


def test_another_size_is_another_network() -> None:
    graph = import_onnx(opened("N", 3, "H", "W").SerializeToString(), {"x": (2, 3, 12, 9)})
    assert graph.tensors["result"].shape == (2, 5, 10, 7)


def test_an_input_without_any_shape_gets_one() -> None:
    model = opened("N", 3, 8, 8)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert refusal(model, {}) == "the ONNX model: input 'x' has no shape; say it, as in --shape x=1x3x224x224"
    graph = import_onnx(model.SerializeToString(), {"x": (1, 3, 8, 8)})
    assert graph.tensors["result"].shape == (1, 5, 6, 6)


def test_a_symbol_that_one_input_fixes_is_fixed_in_all() -> None:
    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 4])

    node = helper.make_node("Add", ["a", "b"], ["y"])
    model = helper.make_model(helper.make_graph([node], "sum", [value("a"), value("b")], [value("y")]))
    assert import_onnx(model.SerializeToString(), {"a": (3, 4)}).tensors["b"].shape == (3, 4)
    assert refusal(model, {"a": (3, 4), "b": (2, 4)}) == (
        "the ONNX model: --shape b=2x4 makes 'N' of input 'b' both 3 and 2"
    )


def test_an_unknown_input_is_named() -> None:
    assert refusal(opened("N", 3, 8, 8), {"image": (1, 3, 8, 8)}) == (
        "the ONNX model: --shape image=1x3x8x8 names no input; there are: x"
    )


def test_another_rank_is_named() -> None:
    assert refusal(opened("N", 3, 8, 8), {"x": (1, 3, 8)}) == (
        "the ONNX model: --shape x=1x3x8 has 3 sizes; input 'x' is [N, 3, 8, 8], with 4"
    )


def test_a_size_that_the_model_fixes_stays() -> None:
    assert refusal(opened("N", 3, 8, 8), {"x": (1, 4, 8, 8)}) == (
        "the ONNX model: --shape x=1x4x8x8 contradicts the model: input 'x' is [N, 3, 8, 8]; only what is not a "
        "number can be fixed"
    )


def test_an_open_size_is_named_with_the_option() -> None:
    assert refusal(opened("N", 3, "height", None), {}) == (
        "the ONNX model: input 'x' has the open shape [N, 3, height, ?]; expected numbers. Say them, as in "
        "--shape x=1x3x224x224"
    )


def test_an_input_is_given_sizes_once() -> None:
    assert parse_shapes(["a=1x2", "b=3"]) == {"a": (1, 2), "b": (3,)}
    with pytest.raises(CompileError) as caught:
        parse_shapes(["a=1x2", "a=1x3"])
    assert str(caught.value) == "--shape a=1x3: the sizes of input 'a' are already given; keep one"
