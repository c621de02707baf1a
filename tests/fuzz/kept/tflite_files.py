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
)
