"""The server as an agent sees it, through the client of the protocol's own SDK."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult

import tilewright as package
from tests.compiler.models import conv_model
from tests.tilewright.command_line import Command
from tilewright.agents.server import server
from tilewright.agents.tools import TOOLS, tools
from tilewright.cli import app

COMMAND_LINE = typer.main.get_command(app)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    onnx.save(conv_model(np.random.default_rng(0)), folder / "net.onnx")
    return folder


def asked(root: Path, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(server(root, COMMAND_LINE)) as client:
            return await ask(client)

    return asyncio.run(run())


def call(root: Path, name: str, **arguments: Any) -> CallToolResult:
    found = asked(root, lambda client: client.call_tool(name, arguments))
    assert isinstance(found, CallToolResult)
    return found


def text(result: CallToolResult) -> str:
    [content] = result.content
    return str(content.text)  # type: ignore[union-attr]


def test_lists_the_tools_with_their_schemas(root: Path) -> None:
    found = asked(root, lambda client: client.list_tools()).tools
    known = tools(COMMAND_LINE)
    assert {tool.name: tool.input_schema for tool in found} == {name: known[name].schema() for name in TOOLS}


def test_an_answer_is_what_a_person_reads_and_the_same_as_json(root: Path, tilewright: Command) -> None:
    compiled = call(root, "compile", model="net.onnx", isa="tiny8", output="net.npu")
    assert not compiled.is_error and (root / "net.npu").exists()
    answer = call(root, "profile", program="net.npu")
    assert text(answer) == tilewright("profile", root / "net.npu").out.rstrip()
    assert answer.structured_content["cycles"] == package.Program.load(root / "net.npu").run_profile().cycles


def test_faults_are_an_answer(root: Path) -> None:
    (root / "mine.yaml").write_text("extends: tiny8\nlane: 4\n")
    answer = call(root, "lint", machine="mine.yaml")
    assert not answer.is_error
    assert "unknown key 'lane' (did you mean 'lanes'?)" in answer.structured_content["faults"][0]


def test_an_error_is_an_error(root: Path) -> None:
    answer = call(root, "profile", program="net.onnx", isa="tiny9")
    assert answer.is_error and text(answer).startswith("error: no machine 'tiny9' (did you mean 'tiny8'?)")
    unknown = call(root, "paint")
    assert unknown.is_error and text(unknown).startswith("error: no tool 'paint'; there are: machines, ")


def test_a_file_cannot_lead_out_of_the_folder(root: Path) -> None:
    secret = root.parent / "secret.yaml"
    secret.write_text("extends: tiny8\n")
    (root / "mine.yaml").write_text(f"extends: {secret}\n")
    answer = call(root, "lint", machine="mine.yaml")
    assert "outside of the folder that agents may use" in text(answer)
    secret.rename(root / "secret.yaml")
    (root / "mine.yaml").write_text(f"extends: {root / 'secret.yaml'}\n")
    assert call(root, "lint", machine="mine.yaml").structured_content["faults"] == []


def test_a_module_in_the_folder_is_not_imported(root: Path) -> None:
    (root / "json.py").write_text("raise SystemExit('imported')\n")
    assert call(root, "lint", machine="tiny8").structured_content["faults"] == []


def test_long_work_says_that_it_goes_on(root: Path) -> None:
    said: list[str] = []

    async def note(seconds: float, total: float | None, message: str | None) -> None:
        said.append(str(message))

    arguments = {"networks": ["net.onnx"], "isa": "tiny8", "no_price": True, "only": ["memories.act.kib"], "jobs": 1}
    answer = asked(root, lambda client: client.call_tool("advise", arguments, progress_callback=note))
    assert not answer.is_error
    assert any("memories.act.kib" in message for message in said), said


def test_a_cancelled_call_ends_its_process(root: Path) -> None:
    seen: set[int] = set()

    async def cancel(client: Client) -> None:
        waiting = asyncio.create_task(client.call_tool("advise", {"networks": ["net.onnx"], "isa": "tiny8", "jobs": 1}))
        while not seen:
            await asyncio.sleep(0.1)
            seen.update(_working_in(root))
        waiting.cancel()
        for _ in range(200):
            if not _working_in(root):
                return
            await asyncio.sleep(0.1)

    asked(root, cancel)
    assert seen and not _working_in(root)


def _working_in(root: Path) -> set[int]:
    """The processes whose working directory this is."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and Path(os.readlink(entry / "cwd")) == root:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def test_the_command_serves_on_standard_streams(root: Path) -> None:
    words = ["-m", "tilewright", "mcp", "--root", str(root)]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def run() -> Any:
        async with Client(stdio_client(parameters)) as client:
            return await client.call_tool("lint", {"machine": "tiny8"})

    assert asyncio.run(run()).structured_content["faults"] == []


def test_a_root_must_be_a_folder(tilewright: Command, root: Path) -> None:
    ended = tilewright("mcp", "--root", root / "net.onnx")
    assert (ended.code, ended.err) == (
        1, f"error: {root / 'net.onnx'}: not a folder; --root names the one that agents may use\n",
    )  # fmt: skip
