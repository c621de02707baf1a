"""A machine whose activations and weights are floating numbers of eight bits, and weights of four, for tests."""

FLOATS = """
extends: tiny8
array: {rows: 4, cols: 4}
lanes: 4
counters: all
dram: {bus_bytes: 4}
memories:
  act: {element: e4m3}
  wgt: {element: e4m3}
  acc: {element: int42}
  lut: {element: e4m3, width: lanes, depth: 512, banks: 1}
  par: {element: {bias: int42, scale: uint16, shift: uint6}, width: lanes, kib: 8, banks: 2}
engines:
  load: {writes: [act, wgt, acc, par, lut]}
  vec: {reads: [act, acc, par, lut]}
instructions:
  load_lut: {engine: load, loops: {i: 10, k: 10}, from: {d: dram}, to: {y: lut}, do: y = d}
  mma: {do: "c = wrap(sum(dot(a, w)), acc)"}
  mma_transposed: {do: "c = wrap(sum(dot(a, transpose(w))), acc)"}
  mma_w4:
    engine: mma
    loops: {n: 3, r: 2, k: 4, x: 6}
    reduce: [r, k]
    from:
      a: rows // lanes * act[r, k, x]
      w: rows * wgt[n, r, k] as e2m1
    to: {c: "2 * cols // lanes * acc[n, x]"}
    flags: [accumulate]
    do: c = wrap(sum(dot(a, w)), acc)
  requantize:
    imm: {zero: null, low: act, high: act}
    do: y = clamp(nearest((a + p.bias) * p.scale, p.shift, act), low, high)
  rescale:
    imm: {a_zero: null, zero: null, low: act, high: act}
    do: y = nearest(clamp(a * scale, low, high), shift, act)
  add:
    imm: {a_zero: null, b_zero: null, zero: null, low: act, high: act}
    do: y = clamp(nearest(a * a_scale + b * b_scale, shift, act), low, high)
  mul:
    imm: {a_zero: null, b_zero: null, zero: null, low: act, high: act}
    do: y = clamp(nearest(a * b * scale, shift, act), low, high)
  sum: {do: "y = wrap(sum(a), acc)"}
  add_bias: {do: "y = wrap(a + p.bias, acc)"}
  add_sums: {do: "y = wrap(a + b, acc)"}
  fill: {imm: {value: act}}
  lookup:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act, t: "256 * lut[]"}
    to: {y: act}
    do: y = lut(t, a)
  choose:
    engine: vec
    loops: {i: 6, j: 6}
    from: {a: act, b: act}
    to: {y: act}
    do: y = where(a * a < b * 8, min(a, 0), b)
  narrow:
    engine: vec
    loops: {i: 6, j: 6}
    from: {a: act}
    to: {y: act}
    imm: {by: uint4}
    do: y = nearest(nearest(a, by + 8, e2m1) << 8, 0, act)
"""
