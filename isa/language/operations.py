"""The operations of the statement language, a row for each: what the parts of the project read of it.

The parser reads word, arity and setting; range inference `range`; `isa.timing` the circuit; the datapath's schedule the
sharing; the selector commutativity, neutral value and mirror; whoever computes with arrays `array`; printers the word
and the notation. Hardware is not data: `rtl/operators.py` has a function for each row that needs one. The interpreter
(`simulator/interpreter.py`) and the meaning in proofs (`rtl/proof/meaning.py`) are written without the rows, so that
they check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial, reduce

import numpy as np

from tilewright.isa.language import ranges
from tilewright.isa.language.facts import Circuit, Facts, Kind, Setting, Sharing
from tilewright.isa.language.notation import Notation, Tightness, over, relation
from tilewright.isa.language.numeric import leading_zeros, nearest_code, round_shift, steps, wrap

_SUM, _PRODUCT, _ATOM = Tightness.SUM, Tightness.PRODUCT, Tightness.ATOM

_shift = partial(Facts, arity=2, needs_int64=True, is_shift=True, sharing=Sharing.PLACE)
_comparison = partial(Facts, arity=2, circuit=Circuit.STEP, range=ranges.of_comparison)
_over_loops = partial(Facts, arity=1, kind=Kind.LOOPS, circuit=Circuit.STEP)
_across_lanes = partial(Facts, arity=1, kind=Kind.ACROSS_LANES, circuit=Circuit.LANE_TREE, setting=Setting.LANES)


class Op(Enum):
    """Every kind of node. The value is the word of the language that makes it; `facts` is the rest of its row."""

    _value_: str
    facts: Facts

    def __new__(cls, facts: Facts) -> Op:
        op = object.__new__(cls)
        op._value_ = facts.word
        op.facts = facts
        return op

    __hash__ = object.__hash__  # as equal as identical, and hashed at every turn

    @property
    def is_infix(self) -> bool:
        """Whether the word is a sign between two arguments."""
        return not self.value.isidentifier()

    @property
    def is_word(self) -> bool:
        """Whether the word is a function's name, as in `min(a, b)`."""
        return not self.is_infix and self.facts.kind is not Kind.LEAF and not self.facts.is_implied

    CONST = Facts(word="const", meaning="a number", arity=0, kind=Kind.LEAF, circuit=Circuit.WIRES)
    SOURCE = Facts(word="source", meaning="an element of an operand", arity=0, kind=Kind.LEAF, circuit=Circuit.WIRES)
    IMMEDIATE = Facts(word="immediate", meaning="an immediate", arity=0, kind=Kind.LEAF, circuit=Circuit.WIRES)

    ADD = Facts(
        word="+",
        meaning="the sum",
        arity=2,
        circuit=Circuit.STEP,
        range=ranges.of_sum,
        array=np.add,
        notation=Notation("{0} + {1}", _SUM, (_SUM, _SUM)),
        is_commutative=True,
        neutral=lambda x: 0,
        mirror="-",
        sharing=Sharing.PLACE,
    )
    SUB = Facts(
        word="-",
        meaning="the difference; `-a` is `0 - a`",
        arity=2,
        circuit=Circuit.STEP,
        range=ranges.of_difference,
        array=np.subtract,
        notation=Notation("{0} - {1}", _SUM, (_SUM, _PRODUCT)),
        neutral=lambda x: 0,
        mirror="+",
        sharing=Sharing.PLACE,
    )
    MUL = Facts(
        word="*",
        meaning="the product",
        arity=2,
        circuit=Circuit.PRODUCT,
        range=ranges.of_product,
        array=np.multiply,
        notation=Notation("{0} · {1}", _PRODUCT, (_PRODUCT, _PRODUCT)),
        is_commutative=True,
        neutral=lambda x: 1,
        sharing=Sharing.PLACE,
    )
    SHIFT_LEFT = _shift(
        word="<<",
        meaning="{0} times two to the power of {1} (0 to 63)",
        circuit=Circuit.STEP,
        range=ranges.of_shift_left,
        array=np.left_shift,
        notation=Notation("{0} · 2^{1}", _PRODUCT, (_PRODUCT, _ATOM)),
        neutral=lambda x: 0,
    )
    SHIFT_RIGHT = _shift(
        word=">>",
        meaning="{0} divided by two to the power of {1} (0 to 63), rounded down",
        circuit=Circuit.STEP,
        range=ranges.of_shift_right,
        array=np.right_shift,
        notation=Notation("⌊{0} / 2^{1}⌋", _ATOM, (_PRODUCT, _ATOM)),
        neutral=lambda x: 0,
    )
    LESS = _comparison(
        word="<",
        meaning="1 if {0} is less than {1}, else 0; `b > a` is the same",
        array=np.less,
        notation=relation("<"),
    )
    LESS_EQUAL = _comparison(
        word="<=",
        meaning="1 if {0} is at most {1}, else 0; `b >= a` is the same",
        array=np.less_equal,
        notation=relation("≤"),
    )
    EQUAL = _comparison(
        word="==",
        meaning="1 if the two are equal, else 0",
        array=np.equal,
        notation=relation("="),
        is_commutative=True,
    )
    NOT_EQUAL = _comparison(
        word="!=",
        meaning="0 if the two are equal, else 1",
        array=np.not_equal,
        notation=relation("≠"),
        is_commutative=True,
    )
    MIN = Facts(
        word="min",
        meaning="the smaller",
        arity=2,
        circuit=Circuit.STEP,
        range=ranges.of_least,
        array=np.minimum,
        is_commutative=True,
        is_idempotent=True,
        neutral=lambda x: x.high,
        sharing=Sharing.PLACE,
    )
    MAX = Facts(
        word="max",
        meaning="the larger",
        arity=2,
        circuit=Circuit.STEP,
        range=ranges.of_greatest,
        array=np.maximum,
        is_commutative=True,
        is_idempotent=True,
        neutral=lambda x: x.low,
        sharing=Sharing.PLACE,
    )
    ABS = Facts(
        word="abs",
        meaning="the absolute value",
        arity=1,
        circuit=Circuit.STEP,
        range=ranges.of_magnitude,
        array=np.absolute,
        notation=Notation("|{0}|"),
        sharing=Sharing.PLACE,
    )
    CLZ = Facts(
        word="clz",
        meaning="the number of zeros before the first 1 of {0} as a 64-bit word: 64 for 0, 0 for a negative number",
        arity=1,
        circuit=Circuit.STEP,
        range=ranges.of_leading_zeros,
        array=leading_zeros,
        sharing=Sharing.PLACE,
    )
    WHERE = Facts(
        word="where",
        meaning="{1} if {0} is not 0, else {2}",
        arity=3,
        circuit=Circuit.STEP,
        range=ranges.of_choice,
        array=lambda condition, yes, no: np.where(condition != 0, yes, no),
        notation=Notation("({1} if {0} ≠ 0, else {2})"),
        sharing=Sharing.PLACE,
    )
    ROUND_SHIFT = _shift(
        word="round_shift",
        meaning="{0} divided by two to the power of {1} (0 to 63), rounded to the nearest integer; of two equally "
        "near, the one that the machine file's `rounding` says",
        circuit=Circuit.ROUNDED_SHIFT,
        setting=Setting.ROUNDING,
        range=ranges.of_round_shift,
        array=round_shift,
        notation=Notation("⌊{0} / 2^{1}⌉", _ATOM, (_PRODUCT, _ATOM)),
        neutral=lambda x: 0,
    )
    NEAREST = _shift(
        word="nearest",
        meaning="the number of the floating type {setting} that is nearest to {0} / 2^{1} of its steps ({1} from 0 to "
        "63); of two equally near, the one with the even code, and beyond the greatest, the greatest",
        circuit=Circuit.ROUNDED_CODE,
        setting=Setting.TYPE,
        range=ranges.of_code,
        array=nearest_code,
        notation=Notation("nearest_{type}({0} / 2^{1})", _ATOM, (_PRODUCT, _ATOM)),
    )
    STEPS = Facts(
        word="steps",
        meaning="what code {0} of the floating type {setting} stands for, in steps of the type",
        arity=1,
        circuit=Circuit.STEP,
        setting=Setting.TYPE,
        range=ranges.of_steps,
        array=steps,
        needs_int64=True,
        notation=Notation("{0}"),
        is_implied=True,
        sharing=Sharing.PLACE,
    )
    LUT = Facts(
        word="lut",
        meaning="in each lane, the element of table {setting} for {0}; the first is for the least value of {0}'s range",
        arity=1,
        circuit=Circuit.TABLE,
        setting=Setting.TABLE,
        notation=Notation("{name}[{0}{offset}]"),
        sharing=Sharing.MEMORY,
    )
    DOT = Facts(
        word="dot",
        meaning="the sum of products: each element of vector {0} times a word of weight tile {1}",
        arity=2,
        kind=Kind.ARRAY,
        circuit=Circuit.ARRAY,
        setting=Setting.PRODUCTS,
        range=ranges.of_dot,
    )
    TRANSPOSE = Facts(
        word="transpose",
        meaning="only as second argument of `dot`: products with the elements of each word of tile {0}, not with its "
        "words",
        arity=1,
        kind=Kind.ARRAY,
        circuit=Circuit.ARRAY,
        range=ranges.same,
    )
    SUM = _over_loops(
        word="sum",
        meaning="the sum over the reduce loops",
        setting=Setting.TRIPS,
        range=ranges.of_sum_over_loops,
        combines="+",
        notation=over("Σ", "{loops}"),
    )
    MAX_OVER = _over_loops(
        word="max_over",
        meaning="the largest over the reduce loops",
        range=ranges.same,
        combines="max",
        notation=over("max", "{loops}"),
    )
    MIN_OVER = _over_loops(
        word="min_over",
        meaning="the smallest over the reduce loops",
        range=ranges.same,
        combines="min",
        notation=over("min", "{loops}"),
    )
    LANES_SUM = _across_lanes(
        word="lanes_sum",
        meaning="the sum over the lanes of the word, in every lane",
        range=ranges.of_sum_of_lanes,
        combines="+",
        notation=over("Σ", "lane"),
    )
    LANES_MAX = _across_lanes(
        word="lanes_max",
        meaning="the largest over the lanes of the word, in every lane",
        range=lambda x, lanes: x,
        combines="max",
        notation=over("max", "lane"),
    )
    WORDS_SUM = Facts(
        word="words_sum",
        meaning="the sum of {0} over the words of its blocks, lane by lane",
        arity=1,
        kind=Kind.WORDS,
        circuit=Circuit.WORD_TREE,
        range=ranges.of_sum_of_words,
        array=lambda *words: reduce(np.add, words),
        combines="+",
        notation=over("Σ", "word"),
    )
    WRAP = Facts(
        word="wrap",
        meaning="the low bits of {0}, read as {setting}",
        arity=1,
        circuit=Circuit.WIRES,
        setting=Setting.TYPE,
        range=ranges.of_wrap,
        array=wrap,
        needs_int64=True,
        notation=Notation("wrap_{type}({0})"),
    )


REDUCTIONS = frozenset(op for op in Op if op.facts.kind is Kind.LOOPS)
"""The operations that reduce over the reduce loops."""

REDUCTION_WORDS = tuple(op.value for op in Op if op in REDUCTIONS)

ACROSS_LANES = frozenset(op for op in Op if op.facts.kind is Kind.ACROSS_LANES)
"""Operations whose value in a lane takes the arguments of all lanes."""


OVER_WORDS = frozenset(op for op in Op if op.facts.kind is Kind.WORDS)
"""Operations on the words of blocks. An argument of such a node is the same expression for one word after the other."""


OPERATIONS: Mapping[str, Op] = {op.value: op for op in Op}
"""By word."""


def combining(reduction: Op) -> Op:
    """The operation that makes one value of two in a reduction, over loops, across lanes or over words."""
    return OPERATIONS[reduction.facts.combines]


IDEMPOTENT = frozenset(op for op in REDUCTIONS if combining(op).facts.is_idempotent)
"""Reductions that give the same result if a value occurs twice."""
