"""`tilewright mcp`: serve the commands to an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.errors import InputError


def mcp_command(
    context: typer.Context,
    root: Annotated[
        Path, typer.Option("--root", metavar="FOLDER", help="The only folder in which tools may read and write files.")
    ],
) -> None:
    """Serve these commands to an agent, by the Model Context Protocol on standard input and output."""
    if not root.is_dir():
        raise InputError(f"{root}: not a folder; --root names the one that agents may use")
    try:
        from tilewright.agents.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise InputError("the package mcp is not installed; install it with: pip install 'tilewright[mcp]'") from error
    import asyncio

    asyncio.run(serve(root.resolve(), context.find_root().command))
