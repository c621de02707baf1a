"""ONNX models of one operator that once showed a fault, each the smallest of its kind."""

import numpy as np

from tilewright.compiler.partition.probe_model import Activation, Numbers, Probe, Weights

EXAMPLES: tuple[Probe, ...] = (
    # An axis of which the low 32 bits are 0.
    Probe("Flatten", "", (Activation((1, 8, 6, 6)),), {"axis": -(2**62)}),
    # A flag that is neither 0 nor 1.
    Probe("Gemm", "", (Activation((4, 8)), Weights((8, 5), axis=1)), {"transA": -(2**62)}),
    # Matrices without elements.
    Probe("MatMul", "", (Weights((0, 8), axis=0), Activation((8, 5)))),
    Probe("Gemm", "", (Activation((4, 8)), Weights((8, 0), axis=1))),
    # The onnx package ended the process.
    Probe("Split", "", (Activation((1, 8, 6, 6)),), {"axis": 3, "num_outputs": 1}, results=2),
    # A factor that is not finite.
    Probe("LeakyRelu", "", (Activation((1, 8, 6, 6)),), {"alpha": float("inf")}),
    # A third operand that does not count, of a product of two computed ones.
    Probe("Gemm", "", (Activation((4, 8)), Activation((8, 5)), Numbers(np.ones(5), "float32")), {"beta": 0.0}),
)
