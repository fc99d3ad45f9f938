"""`workbench explore`: open the explorer in a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from workbench.cli.options import add_root, check_root
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command
from workbench.util.distribution import needs


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="open the explorer in a browser")
    add_root(parser)
    parser.add_argument("--port", type=int, default=8501, help="of this machine (default: 8501)")
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="answer to this name too: that of a tunnel or proxy"
    )
    parser.add_argument("--headless", action="store_true", help="do not open a browser")


def run(options: argparse.Namespace, _: list[str]) -> None:
    if options.root == Path("runs") and not options.root.exists():
        options.root.mkdir()  # empty: the explorer shows the runs that came with the workbench
    check_root(options.root)
    if not 1 <= options.port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {options.port}")

    needs("streamlit", "the explorer")
    from workbench.app.server.serve import listen, serve

    sockets = listen(options.port)  # before the half minute that the libraries may take
    print(f"opening {options.root} …", file=sys.stderr, flush=True)

    def opened(address: str) -> None:
        say(f"explorer of {options.root}, for you alone: {address}\nCtrl-C ends it")
        sys.stdout.flush()
        if not options.headless:
            import webbrowser

            webbrowser.open(address)

    serve(options.root, sockets, hosts=options.host, opened=opened)
