"""The reference page of the statement language: every word, what it means, and what it costs in the datapath."""

from __future__ import annotations

from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.facts import Circuit, Setting
from tilewright.isa.language.numeric import FLOAT_TYPES, MAX_INTEGER_BITS
from tilewright.isa.language.operations import Op
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.isa.timing import CIRCUIT_STAGES, WORDS_A_STAGE

EXAMPLE = DEFAULT_TYPE.element
EVERY_VALUE = EXAMPLE.interval

_HEAD = f"""# The statement language

The statement of an instruction, `do: y = …`, is written in Python's syntax. It may contain four things: the
instruction's operands (`a`, or `p.bias` if the elements of the memory are structures), its immediates, numbers, and the
words below. Values are integers without a fixed width, so nothing overflows inside an expression. Each expression has a
range, which follows from the types of its operands and immediates; {MAX_INTEGER_BITS} bits must be enough for it. The
result must fit the destination. That is why a statement often ends in `sat(…, int16)` or `wrap(…, int16)`.
In place of a type there may be a memory's name, which stands for the type of its elements: `wrap(a + b, acc)`. So the
statement follows where a file says another element.

The column "cycles" says how many stages of the vector datapath's pipeline an operation takes
([microarchitecture.md](microarchitecture.md)). A new iteration can start in every cycle, whatever their number. This
page is generated from the table of operations, `isa/language/operations.py`.

| expression | value | in the manual | cycles |
| --- | --- | --- | --- |
"""

_TAIL = """
Three more words are short forms:

| expression | stands for |
| --- | --- |
| `clamp(x, low, high)` | `min(max(x, low), high)` |
| `sat(x, int16)` | `clamp(x, -32768, 32767)`: the smallest and the largest value of the type |
| `cast(x, int16)` | `x`, after a check that it always fits the type; it takes no hardware |

## Floating types

Memories may hold floating numbers: `e4m3`, of eight bits, and `e2m1`, of four, as the OCP defines them (ONNX calls
them FLOAT8E4M3FN and FLOAT4E2M1). What is stored is a code of sign, exponent and mantissa. In statements an element is
the integer that says how many *steps* its number is. A step is the least number above zero: 2⁻⁹ of e4m3, a half of
e2m1. So e4m3 has whole numbers of steps up to 229,376, which is 448; e2m1 has 0, 1, 2, 3, 4, 6, 8 and 12 steps, which
is 6. Sums and products of these are exact, as those of all integers are.

A memory of floating numbers is written with `nearest`, unless the value is one of the type's numbers anyhow: an
element, or the smallest or largest of such. `nearest(x, n, act)` takes x / 2ⁿ as the number of steps, so that the
fraction counts when it rounds. Zero has no sign. A NaN code counts as zero; `nearest` never gives one. The table of
`lut(t, a)` has a word for each code of `a`, NaN included.
"""


def words_page() -> str:
    """The page, as Markdown."""
    return _HEAD + "".join(_row(op) for op in Op if op.is_infix or op.is_word) + _TAIL


def _row(op: Op) -> str:
    arguments = "abc"[: op.facts.arity]
    type_ = FLOAT_TYPES["e4m3"] if op is Op.NEAREST else EXAMPLE
    sources = tuple(Expr(Op.SOURCE, EVERY_VALUE, name=name) for name in arguments)
    example = Expr(op, EVERY_VALUE, sources, name="t", type=type_)
    setting = f"`{example.name}`" if op.facts.setting is Setting.TABLE else f"`{type_}`"
    meaning = op.facts.meaning.format(*(f"`{name}`" for name in arguments), setting=setting)
    return f"| `{example}` | {meaning} | {_mathematics(example, arguments)} | {_cycles(op)} |\n"


def _mathematics(example: Expr, arguments: str) -> str:
    notation = example.op.facts.notation
    if notation is None:
        return ""
    text = notation.template.format(*arguments, name=example.name, type=example.type, offset=" - least", loops="loops")
    return text.replace("|", "\\|")


def _cycles(op: Op) -> str:
    match op.facts.circuit:
        case Circuit.LANE_TREE:
            return "log₂ of the lanes, rounded up"
        case Circuit.WORD_TREE:
            return f"log₍{WORDS_A_STAGE}₎ of the words, rounded up"
        case Circuit.ARRAY if op is Op.DOT:
            return "in the array, or in the vector engine those of a product, a word of the tile in each cycle"
        case Circuit.ARRAY:
            return "in the array only"
        case circuit:
            return str(CIRCUIT_STAGES[circuit])
