"""The table of operations: every reader knows every word, and what the rows say of values is true of values."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import numpy as np
import pytest
import z3

from tests.compiler.machines import machine
from tilewright.compiler.evaluate import evaluate as evaluate_int64
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.select.unify import Unifier
from tilewright.isa.language.arrays import array_value
from tilewright.isa.language.expressions import Expr, Scope, make, walk
from tilewright.isa.language.facts import Circuit, Kind, Setting
from tilewright.isa.language.numeric import FLOAT_TYPES, IntegerType, Interval, Rounding
from tilewright.isa.language.operations import OPERATIONS, Op, combining
from tilewright.isa.language.statement import WORDS, Statement, parse_statement
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.mathematics import statement_mathematics
from tilewright.isa.timing import is_wires
from tilewright.rtl.proof.meaning import Meaning, integer
from tilewright.simulator.interpreter import Lane, evaluate
from tilewright.simulator.statement_arrays import ArrayStatement, StatementFacts, working_type

INT8 = IntegerType(8, True)
E4M3 = FLOAT_TYPES["e4m3"]
TYPES = {"a": INT8, "b": INT8, "c": IntegerType(3, False), "t": INT8, "w": INT8, "f": E4M3}
WORDS_OF_W = 5
SCOPE = Scope(
    {name: {"": type_} for name, type_ in TYPES.items()},
    {},
    "y",
    IntegerType(63, True),
    reduce_trips=1,
    dot_length=1,
    rounding=Rounding.EVEN,
    blocks={"t": 256, "w": WORDS_OF_W},
)

SAID = [op for op in Op if op.facts.kind is not Kind.LEAF]
IN_LANES = [op for op in SAID if op.facts.kind is not Kind.ARRAY]
IN_NESTS = [op for op in IN_LANES if op.facts.kind is not Kind.WORDS and not op.facts.is_implied]
"""A nest says the same of all elements: which of them are words of a block is found when instructions are selected.

What it reads are numbers, whatever their codes.
"""

LANEWISE = [op for op in SAID if op.facts.kind is Kind.LANE and op.facts.setting is not Setting.TABLE]
"""What has a value on arrays."""

OF_CODES = (Op.NEAREST, Op.STEPS)
"""Their type is a floating one."""

PAIRS = [op for op in LANEWISE if op.facts.arity == 2]


def word_of(op: Op) -> str:
    return op.value


def sentence(op: Op) -> str:
    """A statement that says the word. Shift counts are of `c`, from 0 to 7."""
    arguments = ["a", "c" if op.facts.is_shift else "b", "c"][: op.facts.arity]
    if op.facts.kind is Kind.WORDS:
        arguments = ["w"]
    if op is Op.STEPS:
        return "y = f"
    if op.is_infix:
        return f"y = {f' {op.value} '.join(arguments)}"
    match op.facts.setting:
        case Setting.TABLE:
            arguments.insert(0, "t")
        case Setting.TYPE:
            arguments.append("e4m3" if op in OF_CODES else "uint5")
    call = f"{op.value}({', '.join(arguments)})"
    return f"y = dot(a, {call})" if op is Op.TRANSPOSE else f"y = {call}"


def statement(op: Op) -> Statement:
    return parse_statement(sentence(op), SCOPE)


# -- every reader knows every word -------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", SAID, ids=word_of)
def test_is_parsed_and_printed(op: Op) -> None:
    said = statement(op)

    assert op in {node.op for node in walk(said.expr)}
    assert parse_statement(f"y = {said.expr}", SCOPE).expr == said.expr
    assert (op.is_infix or op.facts.is_implied) == (op.value not in WORDS)


@pytest.mark.parametrize("op", IN_NESTS, ids=word_of)
def test_is_read_back_from_the_text_of_a_nest(op: Op) -> None:
    expr = statement(op).expr
    reads = {node.name: Access(node.name, (Affine((("i", 1),), 0),)) for node in walk(expr) if node.name}
    result = Access("y", (Affine((("i", 1),), 0),))
    nest = Nest("nest", (), (NestLoop("i", 4),), reads, result, expr, 0)
    buffers = {name: Buffer(name, (256, 4) if name == "t" else (4,), INT8) for name in "abcty"}
    program = NestProgram("nests", (nest,), buffers, {}, {}, (), ())

    assert parse_nests(print_nests(program)).nests == (nest,)


@pytest.mark.parametrize("op", IN_LANES, ids=word_of)
def test_is_timed(op: Op) -> None:
    assert (not is_wires(statement(op).expr)) == (op.facts.circuit is not Circuit.WIRES)


@pytest.mark.parametrize("op", SAID, ids=word_of)
def test_is_printed_as_mathematics(op: Op) -> None:
    text = statement_mathematics(instruction(statement(op)))

    assert text.startswith("y ← ") and not set("{}") & set(text)
    assert all(name in text for name in ("a", "b", "c")[: op.facts.arity] if name in str(statement(op).expr))


@pytest.mark.parametrize("op", IN_LANES, ids=word_of)
def test_has_one_value_for_interpreter_proofs_and_arrays(op: Op) -> None:
    """Its own name in the failure says which reader lacks the word."""
    expr = statement(op).expr
    rng = random.Random(op.value)
    for _ in range(20):
        values = {(name, 0): one_of(rng, TYPES[name].interval) for name in "abcf"}
        values |= {("w", word): one_of(rng, INT8.interval) for word in range(WORDS_OF_W)}
        table = {index: rng.randint(-128, 127) for index in range(-128, 128)}
        expected = interpreted(expr, values, table)

        assert proved(expr, values, table) == expected, (op, values)
        assert expr.range.low <= expected <= expr.range.high, (op, values)
        if op.facts.setting is not Setting.TABLE:
            assert simulated(expr, values) == expected, (op, values)
        assert compiled(expr, values, table) == expected, (op, values)


def test_is_selected_for_itself() -> None:
    unmatched = [op.value for op in IN_NESTS if not matches(op)]

    assert unmatched == [Op.LUT.value]  # whose table must be a constant of the network


def matches(op: Op) -> bool:
    """Whether an instruction of the word computes an expression of the word."""
    expr = statement(op).expr
    unifier = Unifier(instruction(statement(op)), lambda _: None, lambda _: None)
    sources = {node.name for node in walk(expr) if node.op is Op.SOURCE}
    return any(set(match.operands) == sources for match in unifier.matches(expr))


def instruction(said: Statement) -> InstructionFormat:
    """`mul` of base16, with two sources a and b of activations, as an instruction of another statement."""
    format_ = machine("base16").format("mul")
    a, b = format_.sources
    sources = (a, b, dataclasses.replace(b, name="c"), dataclasses.replace(b, name="t", block=256))
    return dataclasses.replace(format_, sources=sources, statement=said)


# -- values by each reader ---------------------------------------------------------------------------------------------


Values = dict[tuple[str, int], int]
"""By operand and word of its block."""


def one_of(rng: random.Random, interval: Interval) -> int:
    return rng.choice([interval.low, interval.high, rng.randint(interval.low, interval.high)])


def interpreted(expr: Expr, values: Values, table: dict[int, int]) -> int:
    """Reductions see one iteration of one lane: what they are of it is their argument."""
    lane = Lane({(name, "", word): value for (name, word), value in values.items()}, {"t": list(table.values())})
    if expr.op.facts.combines and expr.op.facts.kind is not Kind.WORDS:
        return evaluate(expr.args[0], lane, 0)
    return evaluate(expr, lane, 0)


def proved(expr: Expr, values: Values, table: dict[int, int]) -> int:
    stored = list(table.values())

    def look_up(node: Expr, index: z3.BitVecRef) -> z3.BitVecRef:
        return integer(stored[z3.simplify(index).as_signed_long()])

    leaves = {(name, "", word): integer(value) for (name, word), value in values.items()}
    reduction = integer(values["a", 0])
    meaning = Meaning(leaves, lambda x, y: x * y, reduction, look_up=look_up)
    return int(z3.simplify(meaning.of(expr)).as_signed_long())


def simulated(expr: Expr, values: Values) -> int:
    code, named = ArrayStatement(StatementFacts(expr), (1, 1), (0,)), {node.name for node in walk(expr)}
    sources = {
        (name, "", inside, word): np.array([[value]], code.type)
        for (name, word), value in values.items()
        for inside in (False, True)
        if name in named
    }
    return int(code.evaluate(sources, {}).item())


def compiled(expr: Expr, values: Values, table: dict[int, int]) -> int:
    leaves = {(name, ""): np.array([[values[name, 0]]], np.int64) for name in "abcf"}
    leaves["w", ""] = np.array([[[values["w", word]] for word in range(WORDS_OF_W)]], np.int64)
    leaves["t", ""] = np.array(list(table.values()), np.int64)[None, :, None]
    return int(evaluate_int64(expr, leaves, [1], [0], ["w"]).item())


# -- what the rows say of values ---------------------------------------------------------------------------------------


def random_interval(rng: random.Random, op: Op, position: int) -> Interval:
    if op.facts.is_shift and position == 1:
        low, high = sorted(rng.randint(0, 20) for _ in range(2))
        return Interval(low, high)
    if op is Op.STEPS:
        return FLOAT_TYPES["e2m1"].interval  # which are codes of all types
    size = rng.choice([1, 3, 100, 1 << 20])
    low, high = sorted(rng.randint(-size, size) for _ in range(2))
    return Interval(low, high)


def random_node(rng: random.Random, op: Op) -> Expr:
    """The operation on sources of random ranges."""
    scope = dataclasses.replace(SCOPE, rounding=rng.choice(list(Rounding)))
    sources = [Expr(Op.SOURCE, random_interval(rng, op, i), name="abc"[i]) for i in range(op.facts.arity)]
    kind = IntegerType(rng.randint(2, 25), rng.random() < 0.5)
    if op in OF_CODES:
        kind = rng.choice(list(FLOAT_TYPES.values()))
    return make(op, *sources, type=kind if op.facts.setting is Setting.TYPE else None, scope=scope)


def random_arguments(rng: random.Random, node: Expr, count: int = 50) -> list[np.ndarray]:
    return [np.array([one_of(rng, arg.range) for _ in range(count)], np.int64) for arg in node.args]


def value(op: Op, *arguments: Sequence[int] | np.ndarray) -> np.ndarray:
    """On integers, rounding to even, into int8 or e4m3."""
    node = Expr(op, INT8.interval, type=E4M3 if op in OF_CODES else INT8, rounding=Rounding.EVEN)
    return np.asarray(array_value(node, *(np.asarray(a, np.int64) for a in arguments)), np.int64)


@pytest.mark.parametrize("op", LANEWISE, ids=word_of)
def test_the_range_holds_every_value(op: Op) -> None:
    rng = random.Random(f"range {op.value}")
    for _ in range(200):
        node = random_node(rng, op)
        values = np.asarray(array_value(node, *random_arguments(rng, node)), np.int64)
        assert node.range.low <= values.min() and values.max() <= node.range.high, node


@pytest.mark.parametrize("op", LANEWISE, ids=word_of)
def test_the_narrowest_type_that_holds_every_step_is_exact(op: Op) -> None:
    rng = random.Random(f"narrow {op.value}")
    for _ in range(200):
        node = random_node(rng, op)
        arguments = random_arguments(rng, node)
        narrow = working_type(node)
        exact = np.asarray(array_value(node, *arguments), np.int64)
        assert (np.asarray(array_value(node, *(a.astype(narrow) for a in arguments)), np.int64) == exact).all(), node


@pytest.mark.parametrize("op", PAIRS, ids=word_of)
def test_is_commutative_exactly_if_its_row_says_so(op: Op) -> None:
    a, b = np.meshgrid(range(8), range(8))

    assert (value(op, a, b) == value(op, b, a)).all() == op.facts.is_commutative


@pytest.mark.parametrize("op", PAIRS, ids=word_of)
def test_is_idempotent_exactly_if_its_row_says_so(op: Op) -> None:
    assert (value(op, range(8), range(8)) == range(8)).all() == op.facts.is_idempotent


@pytest.mark.parametrize("op", [op for op in PAIRS if op.facts.neutral], ids=word_of)
def test_the_neutral_value_leaves_every_value_of_the_range_as_it_is(op: Op) -> None:
    rng = random.Random(f"neutral {op.value}")
    assert op.facts.neutral is not None
    for _ in range(200):
        interval = random_interval(rng, op, 0)
        x = np.array([one_of(rng, interval) for _ in range(20)])
        assert (value(op, x, np.full_like(x, op.facts.neutral(interval))) == x).all(), interval


@pytest.mark.parametrize("op", [op for op in SAID if op.facts.mirror], ids=word_of)
def test_the_mirror_takes_the_constant_with_the_other_sign(op: Op) -> None:
    x, c = np.meshgrid(range(-8, 8), range(-8, 8))

    assert (value(op, x, c) == value(OPERATIONS[op.facts.mirror], x, -c)).all()


@pytest.mark.parametrize("op", [op for op in SAID if op.facts.combines], ids=word_of)
def test_a_reduction_takes_its_values_in_any_order(op: Op) -> None:
    one = combining(op)
    x, y, z = np.meshgrid(range(-4, 4), range(-4, 4), range(-4, 4))

    assert (value(one, value(one, x, y), z) == value(one, x, value(one, y, z))).all()
    assert one.facts.is_commutative
