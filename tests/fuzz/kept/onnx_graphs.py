"""Networks of ONNX operators that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.onnx_graphs import Network

EXAMPLES: tuple[Network, ...] = (
    # The shape of a Reshape in a matrix: ONNX Runtime refuses to run it.
    Network(machine="base16", steps=(("attend", 0),), changes=(("dimension", 38, 0, -2),), seed=0),
    # One scale in a tensor of two dimensions: ONNX Runtime takes a scalar or a list of one.
    Network(machine="base16", steps=(("attend", 0),), changes=(("dimension", 0, 0, -2), ("dimension", 0, 0, -2))),
    # Ten equal weights of a softmax in the middle of two steps, which the product after it adds up to three: right.
    Network("vector16", steps=(("turn", 1), ("attend", 0)), changes=(("constant", 30, 0, 3),), seed=14),
)
