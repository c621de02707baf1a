"""TFLite files that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.tflite_files import File

EXAMPLES: tuple[File, ...] = (
    # One scale for the whole tensor, along a dimension that it does not have: LiteRT refuses it.
    File(dtype="int8", layers=(), end="flatten", changes=(("axis", 0, 0, -3),)),
)
