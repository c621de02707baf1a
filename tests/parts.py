"""A machine whose vector engine has fewer lanes than a word has elements, with every kind of instruction."""

PARTS = """
extends: vector16
array: {rows: 6, cols: 6}
lanes: 6
counters: all
dram: {bus_bytes: 4}
memories:
  act: {kib: 6}
  wgt: {kib: 3}
  acc: {kib: 6}
  par: {kib: 6}
engines:
  vec: {lanes: 2, reads: [act, wgt, acc, par, lut, exp]}
instructions:
  three_taps:
    about: Three words of a block in each iteration.
    engine: vec
    loops: {y: 6, r: 4}
    reduce: [r]
    from: {a: 3 * act, w: "3 * wgt[r]"}
    to: {y: "acc[y]"}
    do: y = wrap(sum(words_sum(a * w)), int32)
  multiply:
    about: A row of a weight tile in each cycle.
    engine: vec
    loops: {n: 4, y: 4, k: 4}
    reduce: [k]
    from: {a: "act[y, k]", w: "lanes * wgt[n, k]"}
    to: {y: "acc[n, y]"}
    do: y = wrap(sum(dot(a, w)), int32)
"""
"""Three parts of two lanes. Of vector16: sums over windows, over lanes, and over both; look-ups in two memories."""
