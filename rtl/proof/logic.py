"""Of any number of claims: all of them, or one of them at least.

SMT-LIB has `and` and `or` of two claims and more only, and z3's own `And` and `Or` make others, too.
"""

from __future__ import annotations

import z3


def all_of(*claims: z3.BoolRef) -> z3.BoolRef:
    return z3.And(*claims) if len(claims) > 1 else claims[0] if claims else z3.BoolVal(True)


def any_of(*claims: z3.BoolRef) -> z3.BoolRef:
    return z3.Or(*claims) if len(claims) > 1 else claims[0] if claims else z3.BoolVal(False)
