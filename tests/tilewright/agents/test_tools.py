"""Tools follow from the commands: their schemas, the words of a call, and which paths are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from tests.tilewright.command_line import Command
from tilewright.agents.tools import LEFT_OUT, TOOLS, tools
from tilewright.cli import app
from tilewright.errors import InputError

COMMAND_LINE = typer.main.get_command(app)


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_is_one_and_has_each_option_of_the_command(tilewright: Command, name: str) -> None:
    tool = tools(COMMAND_LINE)[name]
    jsonschema.Draft202012Validator.check_schema(tool.schema())
    shown = re.findall(r"^│ (?:[* ]  )?(--[\w-]+)", tilewright(*tool.words, "--help").out, re.MULTILINE)
    options = {of.option for of in tool.parameters if of.option is not None}
    assert options == {*shown} - {"--help", *(f"--{option}" for option in LEFT_OUT)}


def test_a_schema_says_what_the_signature_says() -> None:
    found = tools(COMMAND_LINE)["advise"].schema()
    assert found["required"] == ["networks", "isa"]
    assert found["properties"]["networks"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": "Quantised ONNX or TFLite models; or float ones, with --calibration.",
    }
    assert found["properties"]["effort"] == {
        "type": "integer", "minimum": 0, "maximum": 2, "description": "As of `compile`.", "default": 1,
    }  # fmt: skip
    assert found["properties"]["no_price"]["type"] == "boolean"


def test_a_call_becomes_words(tmp_path: Path) -> None:
    arguments = {"networks": ["a.onnx", "-b.onnx"], "isa": "base16", "no_price": True, "only": ["dram"], "top": None}
    assert tools(COMMAND_LINE)["advise"].command(arguments, tmp_path) == [
        "advise", "--isa=base16", "--no-price", "--only=dram", "--", "a.onnx", "-b.onnx",
    ]  # fmt: skip
    assert "--no-price" not in tools(COMMAND_LINE)["advise"].command({**arguments, "no_price": False}, tmp_path)


OUTSIDE: dict[str, dict[str, Any]] = {
    "compile": {"model": "net.onnx", "isa": "base16", "output": "../net.npu"},
    "profile": {"program": "/etc/passwd"},
    "compare": {"networks": ["net.onnx"], "isa": ["base16", "/tmp/mine.yaml"]},
    "quantize": {"model": "net.onnx", "calibration": "~/data.npz", "output": "q.onnx"},
    "lint": {"machine": "linked/mine.yaml"},
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path)
    with pytest.raises(InputError, match="outside of the folder that this server may use; give a path below it$"):
        tools(COMMAND_LINE)[name].command(OUTSIDE[name], root)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown name": ({"isa": "base16", "machine": "x"}, "price has no 'machine'; it takes: isa, programs, set, "),
    "a missing one": ({}, "price needs 'isa': A shipped machine's name (see `isa list`), or a .yaml file."),
    "another type": ({"isa": 3}, "price: isa is 3; expected string"),
    "a number for yes": ({"isa": "base16", "exact": 1}, "price: exact is 1; expected boolean"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(tmp_path: Path, case: str) -> None:
    arguments, message = WRONG[case]
    with pytest.raises(InputError) as refused:
        tools(COMMAND_LINE)["price"].command(arguments, tmp_path)
    assert str(refused.value).startswith(message)
