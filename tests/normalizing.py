"""A machine that normalises: its instructions give a sum's exponent, and its highest seven bits."""

NORMALIZING = """
extends: tiny8
instructions:
  exponent:
    engine: vec
    loops: {i: 4}
    from: {a: acc}
    to: {y: act}
    do: y = clz(a)
  mantissa:
    engine: vec
    loops: {i: 4}
    from: {a: acc}
    to: {y: act}
    do: y = wrap((max(a, 0) << (clz(max(a, 0)) - 33)) >> 24, int8)
"""
