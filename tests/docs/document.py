"""A Markdown document as a session: the files that it shows, the commands that it gives, the output that it promises.

What a fenced block is follows from its language:

    yaml, asm   a file, if its first line is a comment that begins with the file's name: `# mine.yaml`
    sh          commands, one a line
    python      a program
    mlir        a dumped file, if its first line names one: see tests/docs/excerpt.py
    text        right after commands: all that they print, standard output and then the errors; stands nowhere else
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)

FILE_NAME = re.compile(r"#\s*([\w.-]+\.(?:yaml|s))\b")

RTL = re.compile(r"--on rtl\b|--simulate\b|--system\b|^tilewright rtl\b|^make\b")
"""Commands that build the hardware, or run everything."""

CHANGING = re.compile(r"(?<=compiled in )\d+\.\d+(?= s)")
"""What differs from run to run."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its text, and where that stands in the document."""

    language: str
    text: str
    start: int
    end: int
    line: int

    @property
    def file_name(self) -> str | None:
        """The file that this block shows, or None."""
        found = FILE_NAME.match(self.text) if self.language in ("yaml", "asm") else None
        return found[1] if found else None

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of an sh block, without comments."""
        if self.language != "sh":
            return ()
        lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in self.text.splitlines())
        return tuple(line for line in lines if line)


def blocks(text: str) -> tuple[Block, ...]:
    """The fenced blocks of a document in order."""
    return tuple(
        Block(m[1], m[2], m.start(2), m.end(2), text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)
    )


def promised(block: Block, following: Block | None) -> Block | None:
    """The block that shows what an sh block prints, or None."""
    return following if block.commands and following is not None and following.language == "text" else None


def is_slow(command: str) -> bool:
    return RTL.search(command) is not None


def steady(output: str) -> str:
    """Output without what differs from run to run."""
    return CHANGING.sub("…", output)


def with_outputs(text: str, outputs: dict[Block, str]) -> str:
    """The document with other texts in some of its blocks."""
    for block in sorted(outputs, key=lambda block: -block.start):
        text = text[: block.start] + outputs[block] + text[block.end :]
    return text
