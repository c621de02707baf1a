"""Decides terms that z3 has built, with the solver Bitwuzla, which is made for bit-vectors.

Both read SMT-LIB, the standard language of such solvers, so a question goes from one to the other as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import bitwuzla
import z3


def values_of(terms: Sequence[z3.BoolRef], seconds: int) -> Mapping[str, str] | None:
    """Values of the variables with which all terms are true, by name; None where there are none.

    Raises:
        TimeoutError: there is no answer in so many seconds of a clock.
    """
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    options.set(bitwuzla.Option.TIME_LIMIT_PER, 1000 * seconds)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(_text(terms), parse_only=True, parse_file=False)
    solver = parser.bitwuzla()
    match solver.check_sat():
        case bitwuzla.Result.UNSAT:
            return None
        case bitwuzla.Result.SAT:
            variables = [each for each in parser.get_declared_funs() if not each.sort().is_fun()]
            return {each.symbol().strip("|"): str(solver.get_value(each).value(10)) for each in variables}
    raise TimeoutError


def _text(terms: Sequence[z3.BoolRef]) -> str:
    """A question in SMT-LIB: its declarations, and what is asserted."""
    question = z3.Solver()
    question.add(*terms)
    return question.to_smt2()
