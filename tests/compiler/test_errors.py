"""Errors are data; their text is printed from it, whole or without what a table says already."""

import pytest

from tilewright.compiler.errors import Blame, CompileError, DamagedModel, DoesNotFit, NodeName, TooSmall

CONV = NodeName("conv1", "onnx.Conv")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CompileError(CONV, "pads = [-1]"), "node 'conv1' (Conv): pads = [-1]"),
        (CompileError(NodeName("conv1"), "unknown operator"), "node 'conv1': unknown operator"),
        (CompileError("net.onnx", "its bias is computed", expected="a constant"),
         "net.onnx: its bias is computed; expected a constant"),
        (CompileError(CONV, "control flow", remedy="unroll it"), "node 'conv1' (Conv): control flow; unroll it"),
        (CompileError(CONV, "opset 3", expected="7 to 23", remedy="Export it anew"),
         "node 'conv1' (Conv): opset 3; expected 7 to 23. Export it anew"),
        (CompileError(CONV, expected="constant bounds"), "node 'conv1' (Conv): expected constant bounds"),
        (CompileError(fact="no pass 'x'", known="there are: a, b"), "no pass 'x'; there are: a, b"),
        (TooSmall("conv1 (Conv)", "act needs 9 words", {"act": 9}, "try more"),
         "conv1 (Conv): act needs 9 words; try more"),
        (DoesNotFit("act", 9, 8, "conv1"), "conv1: act needs 9 words at the same time, the machine has 8"),
    ],
)  # fmt: skip
def test_prints_the_fields_that_it_has(error: CompileError, text: str) -> None:
    assert str(error) == text


def test_a_table_that_names_the_node_needs_only_the_reason() -> None:
    error = CompileError(CONV, "has no lowering", known="those that have: Add")
    assert error.reason_beside("conv1") == "has no lowering"


def test_a_table_is_told_of_another_node() -> None:
    error = CompileError(CONV, "has no lowering", known="those that have: Add")
    assert error.reason_beside("relu1") == "node 'conv1' (Conv): has no lowering"


def test_a_file_that_is_called_like_a_node_is_none() -> None:
    assert CompileError("conv1", "cannot be read").reason_beside("conv1") == "conv1: cannot be read"


def test_a_place_stands_inside_another() -> None:
    error = CompileError(
        "operator 3", "is sparse", expected="dense weights", remedy="Convert it anew", known="others: a"
    )
    assert str(error.inside("net.tflite")) == f"net.tflite: {error}"


def test_another_remedy_leaves_the_rest() -> None:
    error = TooSmall("conv1", "act needs 9 words", {"act": 9}, "try more").with_remedy("try --set memories.act.depth=9")
    assert (str(error), error.words) == ("conv1: act needs 9 words; try --set memories.act.depth=9", {"act": 9})


def test_blame_names_the_nodes_of_an_error() -> None:
    with pytest.raises(CompileError) as raised, Blame().on(["conv1", "relu1"]):
        raise CompileError(CONV, "has no lowering")
    assert raised.value.nodes == ("conv1", "relu1")


def test_blame_collects_all_but_damage() -> None:
    blame = Blame(collects=True)
    with blame.on(["conv1"]):
        raise CompileError(CONV, "has no lowering")
    with pytest.raises(DamagedModel), blame.on(["relu1"]):
        raise DamagedModel(CONV, "its scale is nan")
    assert blame.faults.keys() == {"conv1"}
    assert blame.faults["conv1"].__traceback__ is None, "it holds no frames"
