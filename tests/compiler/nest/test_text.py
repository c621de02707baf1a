"""Level 2 as text: what is printed is read back the same, and faults are told."""

import re

import numpy as np
import onnx
import pytest

from tests.compiler.models import conv_model, pool_model, random_inputs, residual_model, small_cnn
from tests.compiler.nests import INT8
from tests.compiler.pipelines import DIGITS, lowered, simplified
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.fuse import fuse
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import Buffer, BufferPart, NestProgram
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import Tensor

MODELS = {
    "digits": lambda: onnx.load(DIGITS / "digits_int8.onnx"),
    "conv": lambda: conv_model(np.random.default_rng(1), activation=np.uint8),
    "average": lambda: pool_model(np.random.default_rng(1), "AveragePool", kernel=3, stride=2, pads=[1, 1, 1, 1]),
    "max": lambda: pool_model(np.random.default_rng(1), kernel=3, stride=2, pads=[1, 1, 1, 1], same_scale=False),
    "residual": lambda: residual_model(np.random.default_rng(1)),
    "cnn": lambda: small_cnn(np.random.default_rng(1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_reads_what_it_prints(name: str) -> None:
    model = MODELS[name]()
    inputs = random_inputs(model, np.random.default_rng(2))
    for program in (lowered(model), fuse(lowered(model))):
        text = print_nests(program)
        again = parse_nests(text)
        assert print_nests(again) == text
        assert_equal(again, program)
        expected, computed = run_nests(program, inputs), run_nests(again, inputs)
        assert all(np.array_equal(expected[output], computed[output]) for output in expected)


def assert_equal(a: NestProgram, b: NestProgram) -> None:
    assert (a.name, a.nests, dict(a.buffers), a.inputs, a.outputs) == (
        b.name,
        b.nests,
        dict(b.buffers),
        b.inputs,
        b.outputs,
    )
    assert dict(a.constant_types) == dict(b.constant_types)
    assert all(np.array_equal(a.constants[name], b.constants[name]) for name in b.constants)


def test_another_rounding_is_kept() -> None:
    program = lower(simplified(MODELS["conv"]()), load_machine("base16", ["rounding=away"]))
    assert_equal(parse_nests(print_nests(program)), program)


def test_a_person_can_read_it() -> None:
    text = print_nests(lowered(conv_model(np.random.default_rng(1), channels_in=16)))
    line = next(line for line in text.splitlines() if "nest.compute" in line)
    assert 'loops = ["n 1", "o 5", "y 6", "x 6", "i 16 reduce", "r 3 reduce", "s 3 reduce"]' in line
    assert 'reads = {x = "n, i, y + r, x + s", w = "o, i, r, s", bias = "o", scale = "o", shift = "o"}' in line
    assert 'expr = "min(max(round_shift((sum(x * w) + bias) * scale, shift) + ' in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"nest.program"', '"nest.other"'), "expected a 'nest.program' with a region, got 'nest.other'"),
        (('"nest.compute"', '"nest.frob"'), "unknown operation 'nest.frob'; expected nest.constant, nest.buffer, nest"),
        (('"n 1"', '"n one"'), "nest 'conv': 'n one' is not a loop; expected `name trip` or `name trip reduce`"),
        (("y + r", "y + q"), "nest 'conv': the index 'y + q' names 'q', which is no loop"),
        (("y + r", "y ** r"), "nest 'conv': 'y ** r' is not an index; expected a sum such as 2*y + r - 1"),
        (("(%x, %conv.weight", "(%z, %conv.weight"), "nest.compute: %z is read before it is made"),
        (("sum(x * w)", "frob(x)"), "nest 'conv': `min(max(round_shift((frob(x) + bias) * scale, shift)"),
        (("* scale, shift)", "* scale, )"), "`round_shift((sum(x * w) + bias) * scale)` is not part of the language"),
        (("sum(x * w)", "sum(x * v)"), "is not an expression with ranges for its reads: 'v'"),
        (('rounding = "even"', 'round = "even"'), "nest.compute: unknown attribute round; expected one of name, nodes"),
        (('rounding = "even"', "macs = 1"), "expected before it, one macs alone"),
        (("xui6>", "xf32>"), "'memref<5xf32>': expected integer elements such as i8 or ui16"),
    ],
)
def test_faults_are_told(change: tuple[str, str], message: str) -> None:
    text = print_nests(lowered(MODELS["conv"]()))
    assert change[0] in text
    with pytest.raises(CompileError, match=re.escape(message)):
        parse_nests(text.replace(*change))


X = Tensor("x", (1, 8, 1, 4), (1, 8, 1, 4), "int8", 1.0, 0, 0, 0)
PARTS = NestProgram(
    "parts",
    (),
    {
        "x": Buffer("x", (1, 8, 1, 4), INT8),
        "y": Buffer("y", (1, 8, 1, 6), INT8, (BufferPart("x", (0, 0, 0, 2)),)),
    },
    {},
    {},
    (X,),
    (),
)
"""The last four columns of y are the input x."""


def test_parts_are_read_and_printed() -> None:
    text = print_nests(PARTS)
    assert '"nest.part"(%x, %y) {first = [0, 0, 0, 2]} : (memref<1x8x1x4xi8>, memref<1x8x1x6xi8>) -> ()' in text
    assert_equal(parse_nests(text), PARTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[0, 0, 0, 2]", "[0, 0, 0, 3]"), "nest.part of %y: %x, memref<1x8x1x4xi8>, from [0, 0, 0, 3] on; expected a"),
        (
            ("[0, 0, 0, 2]", "[0, 0, 2]"),
            "nest.part of %y: %x, memref<1x8x1x4xi8>, from [0, 0, 2] on; expected a region",
        ),
        (("6xi8", "6xi16"), "expected a region of memref<1x8x1x6xi16>"),
        (("(%x, %y)", "(%x, %z)"), "line 4: nest.part: %z is read before it is made"),
        (
            (
                "(%x, %y) {first = [0, 0, 0, 2]} : (memref<1x8x1x4xi8>",
                "(%y, %y) {first = [0, 0, 0, 0]} : (memref<1x8x1x6xi8>",
            ),
            "line 4: nest.part of %y: %y is no input; expected an input",
        ),
    ],
)
def test_faults_of_parts_are_told(change: tuple[str, str], message: str) -> None:
    with pytest.raises(CompileError, match=re.escape(message)):
        parse_nests(print_nests(PARTS).replace(*change))
