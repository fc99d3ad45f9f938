"""`workbench mcp`: the commands as tools of a program that speaks the Model Context Protocol, over one folder."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from workbench.cli.output import warn
from workbench.cli.parser import AddCommand, check_root
from workbench.util.distribution import needs


def add(command: AddCommand) -> None:
    parser = command(
        summary="let a program that speaks MCP, such as an agent, look at the runs in a folder",
        description="Serve the Model Context Protocol on standard input and output, for a client that starts this "
        "command: it can list, measure, probe and patch the runs and models under one folder, and reads nothing "
        "outside it. Nothing is written unless --allow-writing is given.",
    )
    parser.add_shared("--root")
    parser.add_argument(
        "--allow-writing", action="store_true", help="offer tools that train runs and write reports there, too"
    )


def run(options: argparse.Namespace, _: list[str]) -> None:
    # A thread of the SDK waits for the client's next line, and Python would wait for that thread.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        mcp(root=options.root, allow_writing=options.allow_writing)
    finally:
        signal.signal(signal.SIGINT, before)


def mcp(*, root: str | Path = "runs", allow_writing: bool = False) -> None:
    """Serve the Model Context Protocol on standard input and output, until the client closes them.

    Args:
        root: the folder of runs and models, outside which nothing is read.
        allow_writing: offer the tools that write there, too.

    Raises:
        ValueError: if there is no such folder, or the package `mcp` is not installed.
    """
    root = Path(root)
    check_root(root)
    needs("mcp", "the MCP server")
    from workbench.cli.mcp_server import server

    if sys.stdin.isatty():
        warn([f"serves {root} to an MCP client on standard input and output; Ctrl-C ends it"])
    server(root, allow_writing).run("stdio")
