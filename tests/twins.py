"""Machines with several arrays of the same size, each with weights and sums of its own."""

from __future__ import annotations

from functools import cache

from tilewright.isa.files.loader import load_machine_text
from tilewright.isa.machine.machine import Machine

SMALL = """
extends: base16
array: {rows: 4, cols: 4}
lanes: 4
memories: {act: {kib: 16, banks: 64}, wgt: {kib: 8}, acc: {kib: 8}, par: {kib: 2}}
"""
"""base16 with four lanes, and with activations in many banks."""

PRODUCT = """
extends: base16
memories:
  wgt2: {{element: int8, width: {cols}, kib: 128, banks: 2}}
  acc2: {{element: int32, width: lanes, kib: {kib}, banks: 2}}
engines:
  mma2: {{template: systolic, queue: 2, cols: {cols}, reads: [act, wgt2], writes: [acc2]}}
instructions:
  product:
    engine: mma2
    loops: {{n: {bits}, r: 4, s: 4, k: 8, y: 10, x: 10}}
    reduce: [r, s, k]
    from: {{a: "rows // lanes * act[r, s, k, y, x]", w: "rows * wgt2[n, r, s, k]"}}
    to: {{c: "cols // lanes * acc2[n, y, x]"}}
    flags: [accumulate]
    do: c = wrap(sum(dot(a, w)), int32)
"""
"""base16 with a second array of which only the product is there, in memories of given sizes."""


@cache
def arrays(count: int, base: str = SMALL) -> Machine:
    """The machine of a text with so many arrays."""
    copies = [f"  mma{n}: {{of: mma, memories: {{wgt: wgt{n}, acc: acc{n}}}}}" for n in range(2, count + 1)]
    return load_machine_text("\n".join([base, "copies:", *copies] if copies else [base]), f"arrays{count}.yaml")
