"""Networks with If and Loop around, behind and between layers of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from tests.formats.ends import IMAGE, Network, Nodes


class Body(Nodes):
    """The nodes of a body. Constants are the outer network's, under names of their own."""

    def __init__(self, outer: Nodes, prefix: str) -> None:
        super().__init__()
        self.rng, self.constants = outer.rng, outer.constants
        self.prefix = prefix

    def named(self, kind: str, inputs: Sequence[str], results: Sequence[str], **attributes: object) -> str:
        return super().named(kind, inputs, [f"{self.prefix}.{name}" for name in results], **attributes)

    def graph(
        self, result: str, *more: onnx.ValueInfoProto, inputs: Sequence[onnx.ValueInfoProto] = ()
    ) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, self.prefix, list(inputs), [*more, of_image(result)])


def of_image(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, IMAGE)


def scalar(name: str, element: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, [])


WORK = ("Neg", "layer", "two layers", "Add", "outer")


def worked(n: Nodes, x: str, work: str, other: str) -> str:
    """What a body does with an image of reals."""
    match work:
        case "layer":
            return n.conv(n.quantized(x))
        case "two layers":
            return n.conv(n.quantized(n.node("Relu", n.conv(n.quantized(x)))))
        case "Add":
            return n.dequantized(n.quantized(n.node("Add", x, other)))
        case "outer":
            return n.node("Identity", other)
    return n.node(work, x)


def chosen(condition: str, work: str, is_behind: bool) -> Network:
    """An If whose condition is constant, an input, or computed; each branch does something else."""
    n = Nodes()
    first = n.conv(n.image("x", np.int8))
    match condition:
        case "true" | "false":
            flag = n.constant(np.array(condition == "true"))
        case "input true" | "input false":
            flag = n.input("flag", np.array(condition == "input true"))
        case _:
            total = n.node("ReduceSum", first, keepdims=0)
            flag = n.node("Greater", total, n.constant(np.float32(0)))
    one, two = Body(n, "then"), Body(n, "else")
    branches = {
        "then_branch": one.graph(worked(one, first, work, first)),
        "else_branch": two.graph(two.node("Abs", first)),
    }
    y = n.node("If", flag, **branches)
    n.output(n.conv(n.quantized(y)) if is_behind else y)
    return n.network()


def repeated(count: str, work: str, is_behind: bool, is_scanned: bool = False) -> Network:
    """A Loop that works on an image again and again: a constant number of times, a given one, or until something is."""
    n = Nodes()
    first = n.conv(n.image("x", np.int8))
    times, goes_on = n.constant(np.array(3)), n.constant(np.array(True))
    if count == "input":
        times = n.input("times", np.array(2))
    if count == "none":
        times = n.constant(np.array(0))
    body = Body(n, "body")
    ends = [scalar("number", onnx.TensorProto.INT64), scalar("before", onnx.TensorProto.BOOL), of_image("state")]
    state = worked(body, "state", work, first)
    if count == "until":
        more = body.node("Less", "number", n.constant(np.array(1)))
    else:
        more = body.node("Identity", "before")
    graph = body.graph(state, scalar(more, onnx.TensorProto.BOOL), inputs=ends)
    results = ["y"]
    if is_scanned:
        graph.output.append(of_image(body.node("Abs", state)))
        del graph.node[:]
        graph.node.extend(body.nodes)
        results.append("all")
    n.named("Loop", [times, goes_on, first], results, body=graph)
    n.output(n.conv(n.quantized("y")) if is_behind else "y")
    if is_scanned:
        n.outputs.append("all")
    return n.network()


def control_networks() -> Iterator[tuple[str, Network]]:
    for condition in ("true", "false", "input true", "input false", "computed"):
        for work in WORK:
            for is_behind in (False, True):
                yield f"If {condition}, {work}, {is_behind}", chosen(condition, work, is_behind)
    for count in ("constant", "input", "none", "until"):
        for work in WORK:
            for is_behind in (False, True):
                yield f"Loop {count}, {work}, {is_behind}", repeated(count, work, is_behind)
    for count in ("constant", "input"):
        yield f"Loop {count} with all states", repeated(count, "layer", False, is_scanned=True)


def all_inside(operator: str, is_known: bool = True) -> Network:
    """A network of which everything is in the body of one node."""
    n = Nodes()
    x = n.image("x", np.int8)
    body = Body(n, "body")
    if operator == "If":
        other = Body(n, "other")
        branches = {"then_branch": body.graph(body.conv(x)), "else_branch": other.graph(other.conv(x))}
        flag = n.constant(np.array(True)) if is_known else n.input("flag", np.array(False))
        n.output(n.node("If", flag, **branches))
        return n.network()
    ends = [scalar("number", onnx.TensorProto.INT64), scalar("before", onnx.TensorProto.BOOL), of_image("state")]
    state = body.conv(body.quantized("state"))
    more = body.node("Identity", "before")
    graph = body.graph(state, scalar(more, onnx.TensorProto.BOOL), inputs=ends)
    times = n.constant(np.array(2)) if is_known else n.input("times", np.array(3))
    n.output(n.node("Loop", times, n.constant(np.array(True)), n.dequantized(x), body=graph))
    return n.network()


def choice_in_a_loop() -> Network:
    """A Loop whose body takes a branch by the number of the iteration: all of it is known."""
    n = Nodes()
    first = n.conv(n.image("x", np.int8))
    body = Body(n, "body")
    ends = [scalar("number", onnx.TensorProto.INT64), scalar("before", onnx.TensorProto.BOOL), of_image("state")]
    flag = body.node("Equal", "number", n.constant(np.array(1)))
    one, two = Body(n, "then"), Body(n, "else")
    branches = {
        "then_branch": one.graph(one.conv(one.quantized("state"))),
        "else_branch": two.graph(two.node("Relu", "state")),
    }
    state = body.node("If", flag, **branches)
    more = body.node("Identity", "before")
    graph = body.graph(state, scalar(more, onnx.TensorProto.BOOL), inputs=ends)
    n.output(n.dequantized(n.quantized(n.node("Loop", n.constant(np.array(3)), "", first, body=graph))))
    return n.network()
