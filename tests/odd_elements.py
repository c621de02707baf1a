"""A machine whose elements are as odd as the loader allows, for tests of values and of the hardware."""

ODD_ELEMENTS = """
extends: tiny8
memories:
  act: {element: uint5}
  acc: {element: int20}
  par: {element: {low: uint3, bias: int45, scale: uint16, shift: uint6, table: int40}}
engines:
  vec: {reads: [act, acc, par, wgt], writes: [act, acc, wgt]}
instructions:
  mma: {do: "c = wrap(sum(dot(a, w)), int20)"}
  mma_transposed: {do: "c = wrap(sum(dot(a, transpose(w))), int20)"}
  requantize:
    imm: {zero: int8, low: uint5, high: uint5}
    do: y = clamp(round_shift((a + wrap(p.bias, int20)) * p.scale, p.shift) + zero, low, high)
  rescale: {imm: {low: uint5, high: uint5}}
  add: {imm: {low: uint5, high: uint5}}
  mul: {imm: {low: uint5, high: uint5}}
  lookup: null
  sum: null
  add_bias: null
  add_sums: null
  fill: {imm: {value: uint5}}
  every_word:
    engine: vec
    loops: {i: 5, j: 5, r: 3}
    reduce: [r]
    from: {a: act, p: par, w: wgt}
    to: {y: "wgt[i, j]"}
    imm: {n: uint4}
    do: y = sat(where(p.low <= a, sum((a << n) - w), w - (p.table >> p.shift)), int8)
  smallest:
    engine: vec
    loops: {i: 5, r: 3, s: 3}
    reduce: [r, s]
    from: {a: act, c: acc}
    to: {y: "acc[i]"}
    do: y = wrap(min_over(abs(c) - a) + where(a == 3, c, 0 - (c != 7)) * 2, int20)
"""
"""Types narrower than what is stored, a field across 64 bits, every word of the language, three destinations."""
