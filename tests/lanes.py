"""Machines that reduce across lanes in every way that the language has, for tests of values and of the hardware."""

ACROSS_LANES = """
extends: tiny8
array: {rows: LANES, cols: LANES}
lanes: LANES
engines: {vec: {writes: [act, acc]}}
instructions:
  lookup: null
  sum_of_lanes:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act}
    to: {y: acc}
    do: y = lanes_sum(a)
  largest_of_lanes:
    engine: vec
    loops: {i: 4, r: 3}
    reduce: [r]
    from: {a: act}
    to: {y: "act[i]"}
    do: y = lanes_max(max_over(a))
  share:
    engine: vec
    loops: {i: 4, j: 4}
    from: {a: act, p: par}
    to: {y: acc}
    imm: {n: uint4}
    do: y = wrap(lanes_sum(a * wrap(p.scale, uint4)) * a + (lanes_max(p.bias - lanes_sum(abs(a))) >> n), int32)
  total:
    engine: vec
    loops: {i: 4, r: 3, s: 3}
    reduce: [r, s]
    from: {a: act, b: act}
    to: {y: "acc[i]"}
    do: y = lanes_sum(sum(max(a - b, 0))) - a
  inside:
    engine: vec
    loops: {i: 4, r: 3}
    reduce: [r]
    from: {a: act}
    to: {y: "acc[i]"}
    do: y = wrap(sum(lanes_max(a) - a), int32)
  same:
    engine: vec
    loops: {i: 4}
    from: {}
    to: {y: acc}
    imm: {n: int8}
    do: y = lanes_sum(n)
"""
"""Before and after reductions over loops, inside one; one inside another; beside products; of what all lanes share."""


def across_lanes(lanes: int) -> str:
    return ACROSS_LANES.replace("LANES", str(lanes))
