"""A machine whose elements share bytes wherever the loader allows, for tests of values and of the hardware."""

PACKED_ELEMENTS = """
extends: tiny8
array: {rows: 4, cols: 4}
lanes: 4
memories:
  act: {element: int4}
  wgt: {element: int4}
  acc: {element: int20}
  lut: {element: uint2, width: lanes, depth: 64, banks: 1}
  few: {element: uint3, width: lanes, depth: 64, banks: 2}
engines:
  load: {writes: [act, wgt, acc, par, lut, few]}
  vec: {reads: [act, acc, par, wgt, lut, few], writes: [act, acc, wgt, few]}
instructions:
  load_lut: &load {engine: load, loops: {i: 10, k: 10}, from: {d: dram}, to: {y: lut}, do: y = d}
  load_few: {<<: *load, to: {y: few}}
  mma: {do: "c = wrap(sum(dot(a, w)), int20)"}
  mma_transposed: {do: "c = wrap(sum(dot(a, transpose(w))), int20)"}
  requantize:
    imm: {zero: int8, low: int4, high: int4}
    do: y = clamp(round_shift((a + wrap(p.bias, int20)) * p.scale, p.shift) + zero, low, high)
  rescale: {imm: {low: int4, high: int4}}
  add: {imm: {low: int4, high: int4}}
  mul: {imm: {low: int4, high: int4}}
  sum: null
  add_bias: null
  add_sums: null
  fill: {imm: {value: int4}}
  lookup:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act, t: "16 * lut[]"}
    to: {y: act}
    do: y = lut(t, a)
  every_word:
    engine: vec
    loops: {i: 5, j: 5, r: 3}
    reduce: [r]
    from: {a: act, f: few, w: wgt}
    to: {y: "wgt[i, j]"}
    do: y = sat(sum(a * w) - f, int4)
  of_blocks:
    engine: vec
    loops: {i: 5, j: 5}
    from: {a: 3 * act, w: 3 * wgt}
    to: {y: few}
    do: y = wrap(words_sum(a * w), uint3)
"""
"""Signed and unsigned, narrower than what is stored, read by the array, by lanes, by blocks and in tables, written."""

_OF_TYPE = """
  mma_{name}:
    engine: mma
    loops: {{n: 3, k: 4, x: 5}}
    reduce: [k]
    from: {{a: "rows // lanes * act[k, x]", w: "rows * wgt[n, k] as {name}"}}
    to: {{c: "{sums} * cols // lanes * acc[n, x]"}}
    flags: [accumulate]
    do: c = wrap(sum(dot(a, w)), int32)"""

NARROW_WEIGHTS = """
extends: tiny8
array: {rows: 4, cols: 4}
lanes: 4
instructions:""" + "".join(
    _OF_TYPE.format(name=name, sums=sums) for name, sums in (("int4", 2), ("uint4", 2), ("int2", 4))
)
"""Weights of int8, and as each of three narrower types in the same memory: one, two and four sums a column."""
