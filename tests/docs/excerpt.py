"""What a document shows of a dumped file: chosen lines, long constants cut, long lines folded.

    // levels/06-tile.mlir, lines with "tile.load, "tile.mma

is the first line of such a block. The pass in the file's name counts; its number is what the folder says.
"""

from __future__ import annotations

import re
from pathlib import Path

WIDTH = 100
LEFT_OUT = "// …"

NAME = re.compile(r"// (\S+)/\d+-([\w-]+)\.\w+(?:, lines with (.+))?")
CONSTANT = re.compile(r'("0x[0-9A-F]{16})[0-9A-F]{8,}(?=")')
HASH = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{48}\b")
PIECE = re.compile(r'(?:"[^"]*"|\[[^\]\[{}]{0,60}\]|[^\s"\[]|\[)+')
TIED = {" = ": "\0=\0", " -> ": "\0-> ", "f32, ": "f32,\0"}
"""Where a line is not cut: around an equals sign, before an arrow, inside a quantised type."""


def excerpt(first_line: str) -> str:
    """The whole block that begins with such a line, from files below the working directory."""
    folder, name, words = _parts(first_line)
    path = next(Path(folder).glob(f"[0-9][0-9]-{name}.*"))
    chosen = words.split(", ") if words else [""]
    lines = [f"// {path}{f', lines with {words}' if words else ''}"]
    for line in path.read_text().splitlines():
        if any(word in line for word in chosen):
            lines += fold(shortened(line))
        elif lines[-1] != LEFT_OUT:
            lines.append(LEFT_OUT)
    return "\n".join(lines) + "\n"


def _parts(first_line: str) -> tuple[str, str, str]:
    """Folder, pass, and the words between commas."""
    match = NAME.fullmatch(first_line)
    assert match is not None, f"{first_line!r} names no dumped file"
    return match[1], match[2], match[3] or ""


def shortened(line: str) -> str:
    """The line with sixteen digits of each long constant and hash."""
    return HASH.sub(r"\1…", CONSTANT.sub(r"\1…", line))


def fold(line: str) -> list[str]:
    """The line in pieces of at most WIDTH characters, if possible; texts in quotes and short lists stay whole."""
    for text, tied in TIED.items():
        line = line.replace(text, tied)
    indent = re.match(" *", line)[0]  # type: ignore[index]
    lines, current = [], indent
    for piece in PIECE.findall(line):
        if current.strip() and len(current) + len(piece) > WIDTH:
            lines.append(current)
            current = f"{indent}    "
        current += f"{piece} "
    return [part.rstrip().replace("\0", " ") for part in (*lines, current)]
