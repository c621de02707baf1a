"""TFLite files that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.tflite_files import File

EXAMPLES: tuple[File, ...] = (
    # One scale for the whole tensor, along a dimension that it does not have: LiteRT refuses it.
    File(dtype="int8", layers=(), end="flatten", changes=(("axis", 0, 0, -3),)),
    # The type of the sizes that a SHAPE gives is none of the schema's: LiteRT refuses it.
    File(dtype="int8", layers=(), end="flatten", changes=(("option", 0, 0, -3),)),
    # The result of a FULLY_CONNECTED is called [1, 1, 5]: LiteRT makes it [1, 5].
    File(dtype="int8", layers=(("add", 0),), end="mean", changes=(("rank", 4, 0, -3),)),
    # An average pool of integers that gives floats: LiteRT refuses it.
    File(dtype="int8", layers=(("add", 0), ("average pool", 0)), changes=(("type", 2, 0, 4),)),
    # A bias of two dimensions: LiteRT refuses it.
    File(dtype="uint8", layers=(("depthwise", 0),), changes=(("rank", 3, 0, -3),)),
    # A sigmoid whose result has another scale than 1/256: LiteRT refuses it.
    File(dtype="int8", layers=(("logistic", 0),), changes=(("scale", 1, 0, -3),)),
    # A convolution whose int8 weights have a zero point: LiteRT refuses it.
    File(dtype="int8", layers=(("conv", 0),), changes=(("zero", 2, 0, -3),)),
    # Weights of int8 beside inputs of uint8: LiteRT reads both as if they were of one type.
    File(dtype="uint8", layers=(), end="mean", changes=(("type", 4, 0, 0),)),
    # A convolution without a bias: LiteRT's kernel wants one, though the schema does not.
    File(dtype="int8", layers=(("conv", 0),), changes=(("leave out", 0, 0, -3),)),
    # A sum of tensors with steps far larger than its own: LiteRT ends the process.
    File(dtype="int8", layers=(("conv", 0), ("add", 0)), changes=(("scale", 1, 0, -3),)),
    # Each layer is at most a step from LiteRT's, and the last one adds what 17 of them are off.
    File(dtype="int8", layers=(("relu", 0), ("conv", 5), ("conv", 5)), end="mean"),
)
