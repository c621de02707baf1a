"""A machine whose vector instructions take blocks of words, for tests of each part that such a block goes through."""

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine

BLOCKS = """
extends: tiny8
parameters: {taps: 3}
engines:
  vec: {reads: [act, wgt, acc, par, lut]}
instructions:
  depthwise:
    engine: vec
    loops:  {c: 3, y: 5, x: 5, r: 3, s: 2}
    reduce: [r, s]
    from:
      a: taps * act
      p: par[c]
      w: "taps * wgt[c, r, s]"
    to:     {y: "act[c, y, x]"}
    imm:    {zero: int8, low: int8, high: int8}
    do: y = clamp(round_shift((sum(words_sum(a * w)) + p.bias) * p.scale, p.shift) + zero, low, high)
  sum_of_block:
    engine: vec
    loops:  {i: 5, j: 5}
    from:   {a: 5 * acc, b: acc}
    to:     {y: acc}
    do: y = wrap(words_sum(a + b), int32)
"""


def with_blocks(taps: int = 3) -> Machine:
    """tiny8 with a depthwise product of `taps` taps a cycle, and with sums of five words."""
    return load_machine_text(BLOCKS.replace("taps: 3", f"taps: {taps}"), "blocks")
