"""Chains that once showed a fault, each the smallest of its kind."""

from tests.fuzz.targets.stripes import CutChain, Step

EXAMPLES: tuple[CutChain, ...] = (
    # A Concat of a Concat, neither of whole words: the copy of the first has gaps, as has what it is copied from.
    CutChain("dw16", 1, (3, 4, 1), (*3 * [Step("convolution", 3)], *2 * [Step("join")]), rows=1),
)
