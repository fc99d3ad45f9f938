"""The MCP server of `workbench mcp`: one call at a time, errors in one line. It alone imports the package `mcp`."""

from __future__ import annotations

import warnings
from inspect import getdoc
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from workbench.cli.mcp_tools import Tools
from workbench.cli.mcp_writing import WritingTools
from workbench.cli.output import path_error
from workbench.util.distribution import version
from workbench.util.lookup import lookup
from workbench.util.messages import Notice, brief, first_problem

INSTRUCTIONS = (
    "Runs are small transformers trained on algorithmic tasks, whose right answer and right attention are known. Begin "
    "with list_runs. A figure means something beside its controls, which stand with it; 'not needed' and 'no more than "
    "in uninformed models' are results. Paths are under {root}, and nothing outside it can be read. {writing}"
)


class _Server(MCPServer):
    """A server whose tools run one after the other, as they share models, and whose errors are one line."""

    def __init__(self, instructions: str) -> None:
        super().__init__("workbench", version=version(), instructions=instructions, log_level="ERROR")
        self.one_at_a_time = anyio.Lock()

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> CallToolResult:
        async with self.one_at_a_time:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", Notice)
                try:
                    self._check_names(name, arguments)
                    result = await super().call_tool(name, arguments, context)
                    assert isinstance(result, CallToolResult), "no tool asks the client anything"
                except (ToolError, ValueError) as error:
                    line = TextContent(type="text", text=self._line(name, error))
                    result = CallToolResult(content=[line], is_error=True)
        notes = dict.fromkeys(brief(each.message) for each in caught if issubclass(each.category, Notice))
        said = [TextContent(type="text", text=f"note: {note}") for note in notes]
        return result.model_copy(update={"content": [*result.content, *said]})

    def _check_names(self, name: str, arguments: dict[str, Any]) -> None:
        """Raise ValueError for a tool or argument that there is not: the SDK passes over the latter."""
        lookup({tool.name: tool for tool in self._tool_manager.list_tools()}, name, "tool")
        known = self._tool_input_schema(name)["properties"]  # type: ignore[index]
        for argument in arguments:
            lookup(known, argument, f"argument of {name}")

    def _line(self, name: str, error: Exception) -> str:
        """What went wrong, in a line."""
        cause = error.__cause__ or error
        if isinstance(cause, ValidationError):
            return first_problem(cause, self._tool_manager.get_tool(name).fn_metadata.arg_model)  # type: ignore[union-attr]
        if isinstance(cause, OSError):
            return brief(path_error(cause))
        return brief(
            cause if isinstance(cause, ValueError | RuntimeError | ToolError) else f"{type(cause).__name__}: {cause}"
        )


def server(root: Path, allow_writing: bool) -> MCPServer:
    """The server over a folder; with `allow_writing` it offers the tools that write there, too."""
    writing = "Tools that write there are offered." if allow_writing else "Nothing can be written."
    made = _Server(INSTRUCTIONS.format(root=root, writing=writing))
    tools = WritingTools(root) if allow_writing else Tools(root)
    written = (tools.train, tools.write_report) if isinstance(tools, WritingTools) else ()
    for tool in (*tools.offered, *written):
        hints = ToolAnnotations(read_only_hint=tool not in written, destructive_hint=False, open_world_hint=False)
        made.add_tool(tool, description=getdoc(tool), annotations=hints, structured_output=False)
    return made
