"""The columns of the table of operations: what the parts of the project read of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tilewright.isa.language.notation import Notation
from tilewright.isa.language.numeric import Interval


class Kind(Enum):
    """From where an operation takes its arguments."""

    LEAF = auto()  # it has none
    LANE = auto()  # one lane of one iteration
    LOOPS = auto()  # all iterations of the reduce loops
    ACROSS_LANES = auto()  # all lanes of one iteration
    WORDS = auto()  # one lane of all words of a block: an argument for each word
    ARRAY = auto()  # words in the systolic array


class Setting(Enum):
    """What a node needs to know besides its arguments."""

    NOTHING = auto()
    TYPE = auto()  # a type: the call's last argument
    ROUNDING = auto()  # how the machine rounds
    TABLE = auto()  # an operand: the call's first argument
    LANES = auto()  # how many lanes a word has
    TRIPS = auto()  # the most iterations of the reduce loops
    PRODUCTS = auto()  # how many elements an activation vector has


class Circuit(Enum):
    """What an operation is in hardware; `isa.timing` says how many cycles each of these takes."""

    WIRES = auto()
    STEP = auto()  # an adder, a comparison, a shifter: what one cycle has time for
    PRODUCT = auto()
    ROUNDED_SHIFT = auto()
    ROUNDED_CODE = auto()
    TABLE = auto()
    LANE_TREE = auto()
    WORD_TREE = auto()
    ARRAY = auto()  # the systolic array has it, the vector datapath does not


class Sharing(Enum):
    """Which operations of several instructions are one unit of the vector datapath."""

    NONE = auto()
    PLACE = auto()  # those as far from the start or from the result: a unit costs more than multiplexers before it
    MEMORY = auto()  # those that read one memory, whose only reader the unit is (the loader sees that it can be)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A row of the table. `range` and `array` take the arguments' intervals and arrays.

    After the arguments comes the setting, if there is one: always for `range`, and for `array` if it is a type or a
    rounding.
    """

    word: str  # of the language: a sign between two arguments, or the name of a function
    meaning: str  # one sentence for readers; {0}, {1}, … stand for the arguments, {setting} for the setting
    arity: int  # of Kind.WORDS as it is written: the node has so many for each word
    circuit: Circuit
    kind: Kind = Kind.LANE
    setting: Setting = Setting.NOTHING
    range: Callable[..., Interval] | None = None  # None: who makes the node knows its range
    array: Callable[..., Any] | None = None  # the value on arrays of integers; for Kind.LANE
    needs_int64: bool = False  # `array` is exact on int64 only, however small the values are
    combines: str = ""  # the word that makes one value of two; for reductions over loops, lanes or words
    notation: Notation | None = None  # None: printed as a call of the word
    is_shift: bool = False  # the second argument is a shift count
    is_implied: bool = False  # no statement says it: the parser puts it where it is meant
    is_commutative: bool = False
    is_idempotent: bool = False  # x ∘ x is x
    neutral: Callable[[Interval], int] | None = None  # y, such that x ∘ y is x for every x in the interval
    mirror: str = ""  # the word with which x ∘ c is x mirror (-c)
    sharing: Sharing = Sharing.NONE

    @property
    def call_arguments(self) -> int:
        """What stands in the parentheses of a word: the arguments, and a table or a type."""
        return self.arity + (self.setting in (Setting.TABLE, Setting.TYPE))
