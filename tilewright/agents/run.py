"""Runs a tool's command in its own process: its lines are progress, cancelling ends it, its JSON is the result."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tell = Callable[[float, str], Awaitable[None]]
"""Told the seconds so far, and what the command said last."""

BEAT_SECONDS = 2.0
"""At least so often the caller hears that the work goes on."""

PATIENCE_SECONDS = 10.0
"""What an interrupted command may take to end by itself."""

RESULT = "result.json"


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How a command ended: what it printed, the value that `--json` wrote, and its messages."""

    code: int
    text: str
    value: Any
    messages: str


async def run_confined(words: Sequence[str], root: Path, tell: Tell) -> CommandOutcome:
    """Run a command in `root`. When the caller is cancelled, the process and all that it started are ended first."""
    folder = Path(tempfile.mkdtemp(prefix="tw-"))
    result = folder / RESULT
    options = len(words) - words[::-1].index("--") - 1
    whole = [*words[:options], f"--json={result}", *words[options:]]
    environment = {**os.environ, "TMPDIR": str(folder), "COLUMNS": "80"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tilewright.agents.confined", str(root), *whole),  # -P: no modules from `root`
        cwd=root,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        text, messages = await _watch(process, tell)
        code = await process.wait()
        return CommandOutcome(code, text, _value(result), messages)
    finally:
        await _end(process)
        shutil.rmtree(folder, ignore_errors=True)


async def _watch(process: asyncio.subprocess.Process, tell: Tell) -> tuple[str, str]:
    """All of both streams; tells of each message, and now and then that the process still runs."""
    assert process.stdout is not None and process.stderr is not None
    start, said = time.monotonic(), [""]
    printed = asyncio.create_task(process.stdout.read())
    messages = asyncio.create_task(_lines(process.stderr, said, start, tell))
    try:
        while not (printed.done() and messages.done()):
            await asyncio.wait((printed, messages), timeout=BEAT_SECONDS)
            await tell(time.monotonic() - start, said[0])
        return printed.result().decode(errors="replace"), messages.result()
    finally:
        printed.cancel()
        messages.cancel()


async def _lines(stream: asyncio.StreamReader, said: list[str], start: float, tell: Tell) -> str:
    found = []
    while line := await stream.readline():
        found.append(line.decode(errors="replace"))
        said[0] = found[-1].strip()
        await tell(time.monotonic() - start, said[0])
    return "".join(found)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Interrupt a process that still runs, and kill it and its children if that does not end it soon."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with suppress(TimeoutError):
        await asyncio.shield(asyncio.wait_for(process.wait(), PATIENCE_SECONDS))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _value(path: Path) -> Any:
    """What the command wrote as JSON; None if it ended before."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
