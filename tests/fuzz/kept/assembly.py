"""Texts that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.assembly import ChangedText

EXAMPLES: tuple[ChangedText, ...] = (
    # An input of twice the elements that are stored: it was assembled, and refused when it was read again.
    ChangedText(program="residual", changes=((0, -1, "0"), (4, 7, "2")), seed=0),
)
