"""Hostile machine files: each fault is one precise IsaError, and no mutation of a file raises anything else."""

from __future__ import annotations

import random
import time
import warnings

import pytest

from tests.isa.mutations import mutated
from tests.rings import long_beyond
from tilewright.isa.errors import IsaError
from tilewright.isa.files.loader import SPECS, load_machine_text, shipped_machines
from tilewright.isa.language.statement import WORDS

BASE16 = (SPECS / "base16.yaml").read_text(encoding="utf-8")

NO_STATEMENT = "is not part of the statement language (operators: + - * << >> < <= == !=)"


def refusal(text: str) -> str:
    """All that the loader says of a text."""
    with pytest.raises(IsaError) as caught:
        load_machine_text(text, "m.yaml")
    return str(caught.value)


def only_refusal(overlay: str) -> str:
    """The one fault of an overlay of base16, which is on its second line."""
    told = refusal("extends: base16\n" + overlay)
    assert "\n" not in told
    assert told.startswith("m.yaml:2:")
    return told.partition(": ")[2]


def statement_refusal(statement: str) -> str:
    """What is wrong with a statement of base16's `copy`: y is int8 and so is a."""
    told = only_refusal(f'instructions: {{copy: {{do: "{statement}"}}}}')
    assert told.startswith("instructions.copy")
    return told.partition(": ")[2]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("y = a * 2", "the value is in [-256, 254] and does not fit y, which is int8 [-128, 127]; "
         "say sat(…, int8) or wrap(…, int8)"),
        ("y = sat(a*a*a*a*a*a*a*a*a*a, int8)", "`(((((((a * a) * a) * a) * a) * a) * a) * a) * a` needs 64 bits; "
         "expected at most 63: use narrower operands"),
        ("y = sat(a << 99, int8)", "<<: the shift count 99 is in [99, 99]; expected 0 to 63"),
        ("y = sat(a << a, int8)", "<<: the shift count a is in [-128, 127]; expected 0 to 63"),
        ("y = sat(99999999999999999999, int8)", "the number 99999999999999999999 needs more than 63 bits"),
        ("y = a / 2", f"`a / 2` {NO_STATEMENT}"),
        ("y = a // 2", f"`a // 2` {NO_STATEMENT}"),
        ("y = a % 2", f"`a % 2` {NO_STATEMENT}"),
        ("y = a ** 2", f"`a ** 2` {NO_STATEMENT}"),
        ("y = 1.5", f"`1.5` {NO_STATEMENT}"),
        ("y = True", "True is not an integer"),
        ("y = a if a else a", f"`a if a else a` {NO_STATEMENT}"),
        ("y = a < a < a", f"`a < a < a` {NO_STATEMENT}"),
        ("y = f'{a}'", "`f'{a}'` " + NO_STATEMENT),
        ("y = (lambda: a)()", f"`(lambda: a)()` {NO_STATEMENT}"),
        ("y = __import__('os')", f"unknown word '__import__'; the language has: {', '.join(WORDS)}"),
        ("y = b", "unknown name 'b'; the statement can use: a"),
        ("y = y", "unknown name 'y'; the statement can use: a"),
        ("y = a.bias", "'a.bias' is not an element; expected a"),
        ("z = a", "the statement assigns 'z'; expected the destination 'y'"),
        ("y == a", "'y == a' is not a statement: expected `y = expression`"),
        ("y = a; y = a", "'y = a; y = a' is not a statement: expected `y = expression`"),
        ("y: int = a", "'y: int = a' is not a statement: expected `y = expression`"),
        ("", "'' is not a statement: expected `y = expression`"),
        ("y = wrap(a, 8)", "wrap: expected a type such as int16, not `8`"),
        ("y = sat(a, int64)", "unknown type 'int64': expected int2 … int63, uint1 … uint63, e4m3 or e2m1, or a memory "
         "of such: act, wgt, acc, lut"),
        ("y = min(a)", "min takes 2 arguments, not 1"),
        ("y = sum(a)", "sum, max_over and min_over go with a `reduce:` list of loops, and a `reduce:` list with one "
         "of them"),
        ("y = " + "-" * 500 + "a", "the statement has 505 characters, nested 504 deep; expected at most 2000 and 60: "
         "split it into several instructions"),
        ("y = 0x" + "f" * 5000, "the statement has 5006 characters, nested 4 deep; expected at most 2000 and 60: "
         "split it into several instructions"),
        ("y = " + "9" * 5000, f"'y = {'9' * 75}… (5006 characters) is not a statement: expected `y = expression`"),
    ],
)  # fmt: skip
def test_refuses_a_statement(statement: str, expected: str) -> None:
    assert statement_refusal(statement) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("{a: b, b: a}", "a: uses 'b', which stands below it; a parameter may use those above it"),
        ("{a: a + 1}", "a: uses itself; a parameter may use those above it"),
        ("{a: c, b: 1}", "a: expected an integer; unknown parameter 'c'; there are: none"),
        ("{a: 1 % 0}", "a: `1 % 0` divides by zero"),
        ("{a: 2 ** 80}", "a: `2 ** 80` is not an integer expression (+ - * // % min max and comparisons)"),
        ("{a: 281474976710656 * 2}", "a: `281474976710656 * 2` is 562949953421312; expected at most 2**48"),
        ("{a: 99999999999999}", "a: 99999999999999 is out of range; expected -1099511627776 to 1099511627776"),
        ("{a: 1.5}", "a: expected an integer, not 1.5"),
        ("{a: .nan}", "a: expected an integer, not nan"),
        ("{a: .inf}", "a: expected an integer, not inf"),
        ("{a: 1e400}", "a: `1e309` is not an integer expression (+ - * // % min max and comparisons)"),
        ("{a: yes}", "a: expected an integer, not True"),
        ("{a: '12'}", "a: expected an integer, not the string '12'; leave the quotes out"),
        ("{a: [1]}", "a: expected an integer, not a list"),
        ('{a: "\\0"}', "a: '\\x00' is not a number or an expression over parameters"),
        ("{a: " + "1+" * 300 + "1}", f"a: '{'1+' * 39}1… (603 characters) is not a number or an expression over "
         "parameters"),
        ("{rows: 4}", "rows: 'rows' is the machine's own, and expressions may use it: choose another name"),
    ],
)  # fmt: skip
def test_refuses_a_parameter(parameters: str, expected: str) -> None:
    assert only_refusal(f"parameters: {parameters}") == f"parameters.{expected}"


def test_what_a_faulty_parameter_decides_is_not_complained_of_again() -> None:
    users = "lanes: a + 1\nmemories: {act: {kib: b}}"
    assert only_refusal(f"parameters: {{a: 1 // 0, b: a}}\n{users}") == "parameters.a: `1 // 0` divides by zero"


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        ("instructions: {copy: {to: {y: ''}}}", "instructions.copy.to.y: '' is not an operand; expected memory, "
         "memory[loops] or words * memory[loops]"),
        ('instructions: {copy: {to: {y: "act\\0"}}}', "instructions.copy.to.y: 'act\\x00' is not an operand; expected "
         "memory, memory[loops] or words * memory[loops]"),
        ("instructions: {load_act: {from: {d: null}, do: y = …}}", "instructions.load_act.do: a dma engine moves one "
         "operand: give it a source in `from:`"),
        ("engines: {vec: {reads: ['', act, acc, par, lut]}}", "engines.vec.reads: unknown ''; expected dram, act, wgt, "
         "acc, par, lut"),
        ("memories: {act: {element: 8}}", "memories.act.element: unknown type '8': expected int2 … int63, uint1 … "
         "uint63, e4m3 or e2m1"),
        ("memories: {act: {element: {}}}", "memories.act.element: a structure needs at least one field"),
        ("memories: {act: 3}", "memories.act: expected a mapping, not 3"),
        ("memories: {act: {kib: 64.0}}", "memories.act.kib: expected an integer, not 64.0"),
        ("memories: {par: {kib: 65536, element: uint1, width: 8}}", "memories.par.kib: 67108864 words; expected at "
         "most 16777216: make it smaller or its words wider"),
        ("dram: 3", "dram: expected a mapping, not 3"),
        ("dram: {bus_bytes: 24}", "dram.bus_bytes: 24 is not a power of two, as AXI4 needs"),
        ("lanes: 1:30", "'1:30' is base 60 or 8 in YAML 1.1; write it plainly"),
        ("lanes: 010", "'010' is base 60 or 8 in YAML 1.1; write it plainly"),
        ("lanes: 0x_", "'0x_' is no integer"),
        ("lanes: !!bool x", "'x' is no true or false"),
        ("lanes: 0x" + "f" * 5000, f"'0x{'f' * 77}… (5004 characters) is too large; expected at most 64 bits"),
        ("lanes: !!python/object/apply:os.system [ls]", "the tag 'tag:yaml.org,2002:python/object/apply:os.system' has "
         "no meaning here"),
        ("lanes: !int 3", "the tag '!int' has no meaning here"),
        ("lanes: &a [*a]", "an alias contains itself, or values are nested deeper than 50"),
    ],
)  # fmt: skip
def test_refuses_a_value(overlay: str, expected: str) -> None:
    assert only_refusal(overlay) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("do: y = min(a, 3)", "m.yaml:2:27: instructions.copy.do: 'y = min(a' is not a statement: expected "
         "`y = expression` (inside { } YAML ends a value at a comma: put it in quotes)"),
        ("to: {y: act[i, j]}", "m.yaml:2:34: not YAML: expected ',' or '}', but got '[' (inside { } a value with [ ] "
         "in it needs quotes)"),
    ],
)  # fmt: skip
def test_tells_where_quotes_are_needed(entry: str, expected: str) -> None:
    assert expected in refusal(f"extends: base16\ninstructions: {{copy: {{{entry}}}}}").splitlines()


SHIPPED = ", ".join(shipped_machines())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "m.yaml: is empty; expected a machine description"),
        ("3", "m.yaml:1:1: expected a mapping, not 3"),
        ("a: 1\na: 2", "m.yaml:2:1: the key 'a' appears twice; keep one"),
        ("? [1]\n: 2", "m.yaml:1:3: a key must be a word"),
        ("<<: 3", "m.yaml:1:5: `<<` takes a mapping, not 3"),
        ("a: *b", "m.yaml:1:4: not YAML: found undefined alias 'b'"),
        ("\ta: 1", "m.yaml:1:1: not YAML: found character '\\t' that cannot start any token"),
        ("a: \x07", "m.yaml: not YAML: unacceptable character #x0007: special characters are not allowed"),
        ("--- 1\n--- 2", "m.yaml:2:1: not YAML: but found another document"),
        ("[" * 3000, "m.yaml: not YAML: nested too deeply"),
        ("a: " + "x" * 300_000, "m.yaml: has 300003 characters; expected at most 262144, a machine file"),
        ("extends: 3", "m.yaml:1:10: extends: expected a name, not 3"),
        ("extends: bas16", f"m.yaml:1:10: extends: no machine 'bas16' (did you mean 'base16'?); there are {SHIPPED}, "
         "or give a path to a .yaml file"),
        ("extends: no.yaml", f"m.yaml:1:10: extends: no machine 'no.yaml': there is no file 'no.yaml'; there are "
         f"{SHIPPED}, or give a path to a .yaml file"),
        ('extends: "\\0.yaml"', f"m.yaml:1:10: extends: no machine '\\x00.yaml': there is no file '\\x00.yaml'; there "
         f"are {SHIPPED}, or give a path to a .yaml file"),
    ],
)  # fmt: skip
def test_refuses_a_file(text: str, expected: str) -> None:
    assert refusal(text) == expected


def test_refuses_a_path_that_no_system_knows() -> None:
    assert refusal(f"extends: /{'a' * 5000}.yaml").startswith("m.yaml:1:10: extends: no machine '/aaaaaa")


def test_an_alias_explosion_is_refused_at_once() -> None:
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 40))
    start = time.process_time()

    told = refusal("l0: &l0 [1]\n" + levels)

    assert told.endswith("more than 20000 values once aliases are followed; expected a machine file")
    assert time.process_time() - start < 20  # unfolded, it would be 9 to the power of 39 values


def test_an_opcode_expression_is_not_given_away_again() -> None:
    machine = load_machine_text("extends: base16\ninstructions: {copy: {opcode: 3 + 4}}", "m.yaml")

    opcodes = [of.opcode for of in machine.formats.values()]
    assert machine.formats["copy"].opcode == 7
    assert len(set(opcodes)) == len(opcodes)


# -- random mutations --------------------------------------------------------------------------------------------------

SEED = 20_261
MUTATIONS = 500


@pytest.mark.parametrize("mutations", long_beyond(1, [MUTATIONS // 3, MUTATIONS]))
def test_a_mutated_file_loads_or_is_refused(mutations: int) -> None:
    print(f"seed {SEED}")
    outcomes = {"loads": 0, "refused": 0}
    for number in range(mutations):
        text = mutated(BASE16, random.Random(SEED + number))
        start = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                machine = load_machine_text(text, "m.yaml")
        except IsaError as error:
            outcomes["refused"] += 1
            assert str(error).startswith("m.yaml:"), f"seed {SEED + number}: no place in {error}"
        else:
            outcomes["loads"] += 1
            again = load_machine_text(machine.text, "again")
            assert again == machine, f"seed {SEED + number}: its canonical text is another machine"
        assert time.process_time() - start < 1, f"seed {SEED + number} takes too long"
    assert min(outcomes.values()) > mutations // 50, f"{outcomes}: the mutations are too wild or too tame"
