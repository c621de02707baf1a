"""The server: lists the tools, and answers each call with what a person would read, and with the same as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from tilewright.agents.run import CommandOutcome, run_confined
from tilewright.agents.tools import tools
from tilewright.errors import InputError
from tilewright.isa.binary.elf_writer import tool_version

INSTRUCTIONS = (
    "Tilewright compiles quantised neural networks (ONNX, TFLite) for NPUs that one YAML file each describes, and says "
    "what they cost in cycles, area and energy; cycles are those of the hardware. Begin with `machines`; `profile` a "
    "model with `isa` to see where its cycles go; `compare` machines; `advise` tries every single change of one; "
    "`lint` a machine of your own. Paths are below the folder of the server. `set` takes key.path=value."
)


def server(root: Path, command_line: Any) -> Server[Any]:
    """A server whose tools are commands, and read and write files below `root` only."""
    known = tools(command_line)

    async def list_tools(context: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
        found = [
            types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema())
            for tool in known.values()
        ]
        return types.ListToolsResult(tools=found)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = known.get(params.name)
        if tool is None:
            return _refusal(f"no tool {params.name!r}; there are: {', '.join(known)}")
        try:
            words = tool.command(params.arguments or {}, root)
        except InputError as error:
            return _refusal(str(error))

        async def tell(seconds: float, message: str) -> None:
            await context.session.report_progress(seconds, None, message or f"{tool.name}: {seconds:.0f} s")

        return _answer(await run_confined(words, root, tell))

    return Server(
        "tilewright",
        version=tool_version(),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(root: Path, command_line: Any) -> None:
    """Serve one client on standard input and output, until it hangs up."""
    made = server(root, command_line)
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


def _answer(outcome: CommandOutcome) -> types.CallToolResult:
    """A command that found faults (exit code 1) and wrote them is no error: these are its answer."""
    is_error = outcome.code != 0 and outcome.value is None
    text = "\n".join(part.rstrip() for part in (outcome.text, outcome.messages) if part.strip())
    value = (
        outcome.value if isinstance(outcome.value, dict) else None if outcome.value is None else {"rows": outcome.value}
    )
    content: list[types.ContentBlock] = [
        types.TextContent(type="text", text=text or f"ended with exit code {outcome.code}")
    ]
    return types.CallToolResult(content=content, structured_content=value, is_error=is_error)


def _refusal(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"error: {message}")], is_error=True)
