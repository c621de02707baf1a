"""A proof's outcome, and the question to the solver behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import bitwuzla
import z3

from tilewright.rtl.proof.netlist import NetlistRun, SymbolicNetlist

TIMEOUT_SECONDS = 300
"""The most seconds for one question to the solver. A proof that takes longer has failed."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was claimed, how it was shown, and the counterexample if it is false ("" if it holds)."""

    claim: str
    method: str
    counterexample: str
    seconds: float

    @property
    def holds(self) -> bool:
        return not self.counterexample


@dataclass(frozen=True, slots=True)
class Goal:
    """Whatever satisfies all of `given` satisfies `then`."""

    name: str
    given: Sequence[z3.BoolRef]
    then: z3.BoolRef


@dataclass(frozen=True, slots=True)
class Claim:
    """What holds of some hardware, how that is shown, and the questions for a run of it."""

    what: str
    method: str
    goals: Callable[[NetlistRun], Sequence[Goal]]


@dataclass(frozen=True, slots=True)
class Subject:
    """Hardware and what is claimed of it."""

    hardware: SymbolicNetlist
    claims: Sequence[Claim]

    def proofs(self) -> list[Proof]:
        run = NetlistRun(self.hardware)
        return [prove(claim.what, claim.method, partial(claim.goals, run)) for claim in self.claims]


def prove(claim: str, method: str, goals: Callable[[], Sequence[Goal]]) -> Proof:
    """Decide all goals of a claim; the time includes making them."""
    start = time.perf_counter()
    refuted = [text for goal in goals() if (text := refute(goal))]
    return Proof(claim, method, refuted[0] if refuted else "", time.perf_counter() - start)


def refute(goal: Goal) -> str:
    """A counterexample in words, or nothing when there is none."""
    try:
        values = values_of([*goal.given, z3.Not(goal.then)], TIMEOUT_SECONDS)
    except TimeoutError:
        return f"{goal.name}: no answer in {TIMEOUT_SECONDS} seconds"
    if values is None:
        return ""
    example = ", ".join(f"{name} = {value}" for name, value in sorted(values.items()))
    return f"{goal.name}: false, for example with {example[:400]}"


def values_of(terms: Sequence[z3.BoolRef], seconds: int) -> Mapping[str, str] | None:
    """Values of the variables with which all terms are true, by name; None where there are none.

    z3 has built the terms. Bitwuzla decides, since it is made for bit-vectors; both read SMT-LIB, the standard language
    of solvers, so the question goes over as text.

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
