"""What Python and a notebook show of programs and results."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tilewright.api import compile  # noqa: A004
from tilewright.notebook import Profile, form_of, table_html
from tilewright.program import Program, Result


@pytest.fixture(scope="module")
def program() -> Program:
    return compile("programs/digits/digits_int8.onnx", "base16")


def test_a_program_says_what_it_is(program: Program) -> None:
    count = len(program.binary.instructions)
    assert repr(program) == (f"<Program for base16: {count} instructions; image float32 1×1×8×8 → logits float32 1×10>")


def test_a_result_says_its_cycles_and_outputs(program: Program) -> None:
    result = program.run(program.zero_inputs())
    assert result.profile is not None
    assert repr(result) == f"<Result: {result.profile['cycles']:,} cycles; logits float32 1×10>"
    assert repr(Result({}, None)) == "<Result: no clock; nothing>"


def test_a_notebook_shows_every_layer_with_its_instructions(program: Program) -> None:
    shown = program._repr_html_()
    rows = re.findall(r"<tr><td>(.*?)</td><td>[\d,]+</td>((?:<td>\d+</td>)+)</tr>", shown)
    assert [name for name, _ in rows] == [layer.name for layer in program.layers]
    counts = sum(int(number) for _, cells in rows for number in re.findall(r"\d+", cells))
    assert counts == len(program.binary.instructions)


def test_a_notebook_shows_the_cycles_of_a_run(program: Program) -> None:
    shown = program.run(program.zero_inputs())._repr_html_()
    assert f"<tr><td>total</td><td>{program.profile()['cycles']:,}</td>" in shown
    assert "Cycles" not in Result({"y": np.zeros((0, 2))}, None)._repr_html_()


def test_names_are_text(program: Program) -> None:
    assert "<b>" not in table_html("<b>", ("<b>",), [("<b>",)])
    layers = tuple(replace(layer, name="<i>") for layer in program.binary.layers)
    assert "<i>" not in Program(replace(program.binary, layers=layers))._repr_html_()


def test_a_scalar_has_no_sizes() -> None:
    assert form_of("x", np.zeros(())) == "x float64 scalar"


def test_shows_what_the_host_does() -> None:
    made = compile("programs/digits/digits_int8.onnx", "base16", ["instructions.max_pool=null"])
    assert "<td>maxpool</td><td>MaxPool</td>" in made._repr_html_() and "1 node on the host" in repr(made)


def test_a_machine_and_a_profile_say_what_they_are(program: Program) -> None:
    profile = program.profile()
    assert repr(program.machine) == (
        "<Machine base16: 16×16 array, 16 lanes, 544 KiB on chip, 16 bytes a cycle; 22 instructions>"
    )
    assert repr(profile).startswith(f"<Profile: {profile['cycles']:,} cycles on base16; ")


def test_a_notebook_shows_a_machines_memories_and_instructions(program: Program) -> None:
    shown = program.machine._repr_html_()
    assert all(f"<td>{name}</td>" in shown for name in (*program.machine.memories, *program.machine.engines))
    assert all(mnemonic in shown for mnemonic in program.machine.formats)


def test_a_notebook_shows_a_profiles_layers_and_answers(program: Program) -> None:
    profile = program.profile()
    assert isinstance(profile, Profile)
    shown = profile._repr_html_()
    assert "What may help: " in shown
    for layer in profile["layers"]:
        assert f"<tr><td>{layer['name']}</td><td>{layer['cycles']:,}</td>" in shown


def test_a_profile_is_written_as_the_dictionary_that_it_is(program: Program) -> None:
    profile = program.profile()
    assert json.loads(json.dumps(profile)) == profile == program.run(program.zero_inputs()).profile
