"""A machine that looks up in tables in every way that the loader allows, for tests of values and of the hardware."""

TABLES = """
extends: tiny8
array: {rows: 4, cols: 4}
lanes: 4
memories:
  lut: {element: int8, width: lanes, depth: 1024, banks: 1}
  wide: {element: uint16, width: lanes, depth: 300, banks: 1}
  narrow: {element: int5, width: lanes, depth: 64, banks: 1}
engines:
  load: {writes: [act, wgt, acc, par, lut, wide, narrow]}
  vec: {reads: [act, acc, par, lut, wide, narrow], writes: [act, acc, narrow]}
instructions:
  load_lut: &load {engine: load, loops: {i: 10, k: 10}, from: {d: dram}, to: {y: lut}, do: y = d}
  load_wide: {<<: *load, to: {y: wide}}
  load_narrow: {<<: *load, to: {y: narrow}}
  lookup:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act, t: "256 * lut[]"}
    to: {y: act}
    do: y = lut(t, a)
  lookup_of_sums:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: acc, b: act, t: "256 * lut[j]"}
    to: {y: acc}
    do: y = lut(t, wrap(a, uint8)) - b
  exponential:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act, b: act, t: "256 * wide[]"}
    to: {y: acc}
    do: y = lut(t, clamp(a - b, -255, 0)) + a
  total:
    engine: vec
    loops: {i: 4, r: 3}
    reduce: [r]
    from: {a: act, t: 16 * narrow}
    to: {y: "acc[i]"}
    do: y = sum(lut(t, wrap(a, uint4)) * a)
  last:
    engine: vec
    loops: {i: 4, r: 3}
    reduce: [r]
    from: {a: act, t: "16 * narrow[r]"}
    to: {y: "acc[i]"}
    do: y = lut(t, wrap(a, int4)) + max_over(a)
  pair:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act, t: "256 * lut[]", u: "16 * narrow[i]"}
    to: {y: act}
    do: y = sat(lut(t, a) + lut(u, wrap(a, uint4)), int8)
  write_table:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act}
    to: {y: narrow}
    do: y = wrap(a, int5)
  replace:
    engine: vec
    loops: {i: 4}
    from: {a: act, t: "16 * narrow"}
    to: {y: narrow}
    do: y = lut(t, wrap(a, uint4))
"""
"""Tables of signed, unsigned and narrow elements; that stay or move; in reductions and beside them; two in a statement;
units shared by formats whose tables are different sources; a table that the vector engine writes."""
