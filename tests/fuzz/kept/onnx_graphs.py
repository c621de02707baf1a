"""Networks of ONNX operators that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.onnx_graphs import Network

EXAMPLES: tuple[Network, ...] = (
    # The shape of a Reshape in a matrix: ONNX Runtime refuses to run it.
    Network(machine="base16", steps=(("attend", 0),), changes=(("dimension", 38, 0, -2),), seed=0),
    # One scale in a tensor of two dimensions: ONNX Runtime takes a scalar or a list of one.
    Network(machine="base16", steps=(("attend", 0),), changes=(("dimension", 0, 0, -2), ("dimension", 0, 0, -2))),
)
