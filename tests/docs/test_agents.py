"""The transcript in docs/agents.md: each call is made again, by the protocol's own client, and answers as it says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import onnx
import pytest
import typer
from mcp import Client

from programs.networks.registry import int8_network
from tests.docs.document import Block, blocks, with_outputs
from tilewright.agents.server import server
from tilewright.cli import app


def calls(text: str) -> list[tuple[Block, dict[str, object], Block]]:
    """Each call of the transcript: its block, what it says, and the block of the answer."""
    shown = blocks(text)
    pairs = zip(shown, shown[1:], strict=False)
    found = [(one, json.loads(one.text), answer) for one, answer in pairs if one.language == "json"]
    return [(one, asked, answer) for one, asked, answer in found if "tool" in asked]


@pytest.mark.slow
def test_the_calls_of_the_transcript_answer_as_it_says(repository: Path, tmp_path: Path, update_golden: bool) -> None:
    document = repository / "docs/agents.md"
    text = document.read_text()
    onnx.save(int8_network("ds-cnn"), tmp_path / "ds-cnn.onnx")
    answers: dict[Block, str] = {}

    async def replay() -> None:
        async with Client(server(tmp_path, typer.main.get_command(app))) as client:
            for one, asked, answer in calls(text):
                for block in blocks(text):
                    if block.file_name is not None and block.start < one.start:
                        (tmp_path / block.file_name).write_text(block.text)
                result = await client.call_tool(str(asked["tool"]), asked["arguments"])  # type: ignore[arg-type]
                assert answer.language == "text"
                answers[answer] = f"{result.content[0].text}\n"  # type: ignore[union-attr]

    asyncio.run(replay())
    assert len(answers) == 5
    if update_golden:
        document.write_text(with_outputs(text, answers))
    else:
        assert {block.line: block.text for block in answers} == {block.line: answers[block] for block in answers}


def test_an_answer_stands_right_below_its_call(repository: Path) -> None:
    found = calls((repository / "docs/agents.md").read_text())
    assert [answer.language for _, _, answer in found] == ["text"] * len(found)
