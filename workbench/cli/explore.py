"""`workbench explore`: open the explorer in a browser."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from workbench.cli.output import say
from workbench.cli.parser import AddCommand, check_root, chosen
from workbench.util.distribution import needs
from workbench.util.memory import keep_freed
from workbench.util.messages import brief


def add(command: AddCommand) -> None:
    parser = command(
        summary="open the explorer in a browser",
        description="Open the explorer on the runs in a folder; or on a model of Hugging Face, on sentences that you "
        "type, or on pieces of a text with --text.",
        usage="[MODEL [--text FILE]] [--root DIR] [--port PORT] …",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a folder that save_pretrained wrote, a GGUF file, or a name on the hub",
    )
    parser.add_shared("--text", help="with MODEL: look at this text, or a prompt set")
    parser.add_shared("--root")
    parser.add_argument("--port", type=int, default=8501, help="of this machine (default: 8501)")
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="answer to this name too: that of a tunnel or proxy"
    )
    parser.add_argument("--headless", action="store_true", help="do not open a browser")


def run(options: argparse.Namespace, _: list[str]) -> None:
    explore(**chosen(options, "model", "text", "root", "port", "host", "headless"))


def explore(
    model: str | Path | None = None,
    *,
    text: str | Path | None = None,
    root: str | Path = "runs",
    port: int = 8501,
    host: Sequence[str] = (),
    headless: bool = False,
) -> None:
    """Open the explorer in a browser, until Ctrl-C.

    Args:
        model, text: a model of Hugging Face, its folder or file or its name on the hub, in place of runs; and of it a
            text, in UTF-8, of which pieces are looked at, or a prompt set.
        root: the folder that holds run folders.
        port, host: of this machine; and further names to answer to, those of a tunnel or proxy.
        headless: do not open a browser.

    Raises:
        ValueError: if there is no such folder or model, or the port is taken or none.
    """
    root = Path(root)
    if root == Path("runs") and not root.exists():
        root.mkdir()  # empty: the explorer shows the runs that came with the workbench
    _check(model, text, root, port)
    needs("streamlit", "the explorer")
    # Each click is computed in a thread of its own, whose helpers would spin for twice as long as it takes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_freed()
    from workbench.app.server.serve import listen, serve
    from workbench.util.files import check_utf8

    check_utf8(root.resolve(), as_text=True)
    sockets = listen(port)  # before the half minute that the libraries may take
    shown = model or root
    print(f"opening {brief(shown)} …", file=sys.stderr, flush=True)
    opened_model = None if model is None else _opened(str(model), text)

    serve(root, sockets, hosts=host, opened=partial(_show, shown, headless), model=opened_model)


def _check(model: str | Path | None, text: str | Path | None, root: Path, port: int) -> None:
    """Raise ValueError for what is wrong with what is given, before any library is imported."""
    check_root(root)
    if not 1 <= port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {port}")
    if text is not None and model is None:
        raise ValueError("--text is of a model of Hugging Face; name the model too")


def _show(shown: str | Path, headless: bool, address: str) -> None:
    """Say where the explorer is, once it answers there, and open a browser."""
    say(f"explorer of {shown}, for you alone: {address}\nCtrl-C ends it")
    sys.stdout.flush()
    if not headless:
        import webbrowser

        webbrowser.open(address)


def _opened(model: str, text: str | Path | None) -> tuple[str, str | None]:
    """The model and text as the explorer is told them, which is loaded here, so that what is wrong is said at once."""
    from workbench.runs import open_model
    from workbench.tasks.prompt_sets import named
    from workbench.util.files import is_run

    folder = Path(model).expanduser()
    if is_run(folder):
        raise ValueError(f"{folder} is a run folder; `workbench explore --root {folder.parent}` shows it")
    source = str(folder.resolve()) if folder.exists() else model
    resolved = None if text is None else named(text) or str(Path(text).resolve())
    open_model(source, resolved)
    return source, resolved
