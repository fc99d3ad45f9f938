"""The explorer's server: on this machine alone, with what a first page needs loaded before it answers."""

from __future__ import annotations

import errno
import gc
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from workbench.app.server.guard import TOKEN, Door, Guard, stand_at

LIGHT, DARK = "#00639C", "#56B4E9"  # near those of the figures; the light one is read on its own pale shade too
SECONDS_TO_END = 3
TAKEN = (errno.EADDRINUSE, errno.EACCES)

# Streamlit's: nothing phoned home, no watching of source files, and no errors' insides shown.
SETTINGS = {
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.toolbarMode": "viewer",
    "global.disableWidgetStateDuplicationWarning": True,  # a click moves a field that has a default
    "logger.level": "warning",  # not every request, among them the one with the token
    "runner.magicEnabled": False,  # which writes every bare string of a page's code on the page
    "server.fileWatcherType": "none",
    "theme.light.primaryColor": LIGHT,
    "theme.dark.primaryColor": DARK,
}

UVICORN: dict[str, Any] = {
    "access_log": False,
    "log_level": "warning",
    "ws_ping_interval": 30,  # a page that waits for a long measurement is not gone
    "ws_ping_timeout": 30,
    "ws_per_message_deflate": False,
    "timeout_graceful_shutdown": SECONDS_TO_END,
}


def listen(port: int) -> list[socket.socket]:
    """Take a port of this machine, for IPv4 and, where there is any, for IPv6.

    Raises:
        ValueError: in one line, if it is taken or not ours to take.
    """
    taken: list[socket.socket] = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            one = socket.socket(family)
        except OSError:  # no IPv6 here
            continue
        try:
            if os.name != "nt":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address, port))
            one.listen(2048)
        except OSError as error:
            one.close()
            if family == socket.AF_INET6 and error.errno not in TAKEN:
                continue  # an address that this machine has not got
            for other in taken:
                other.close()
            raise ValueError(f"port {port} cannot be had ({error.strerror}); give another with --port") from None
        taken.append(one)
    return taken


def serve(
    root: Path,
    sockets: Sequence[socket.socket],
    *,
    hosts: Iterable[str] = (),
    opened: Callable[[str], object],
    model: tuple[str, str | None] | None = None,
) -> None:
    """Serve the explorer until SIGINT or SIGTERM, with which the process ends.

    Args:
        root: the folder whose runs may be opened.
        sockets: from `listen`.
        hosts: names that requests may call this machine by, beside its own: those of a tunnel or proxy.
        opened: called with the address once the server answers; the address has the token, and is for no one else.
        model: a model of Hugging Face to look at beside the runs, and the text that it is looked at on, if any.
    """
    script = Path(__file__).parents[1] / "main.py"
    root, start = root.resolve(), Path.cwd()
    # Streamlit reads settings and secrets from the current folder, which may be a stranger's.
    os.chdir(script.parent)
    sys.argv = [str(script), "--root", str(root), "--start", str(start), *_of_model(model)]  # what `state` reads

    import uvicorn
    from streamlit.web.bootstrap import load_config_options

    port = sockets[0].getsockname()[1]
    load_config_options({**SETTINGS, "server.port": port})
    _load_what_pages_need()
    door = Door.made(port, hosts)
    stand_at(door)
    first = "" if model is None else "canvas"  # where a text and what comes next are
    config = uvicorn.Config(
        _application(script, door, lambda: opened(f"http://localhost:{port}/{first}?{TOKEN}={door.token}")),
        **UVICORN,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=list(sockets))
    sys.stdout.flush()
    os._exit(0)  # Python would wait for pages that measure something long


def _of_model(model: tuple[str, str | None] | None) -> list[str]:
    """The options that name a model of Hugging Face and its text."""
    if model is None:
        return []
    source, text = model
    return ["--model", source, *([] if text is None else ["--text", text])]


def _load_what_pages_need() -> None:
    """Import everything slow, so that the first page is quick, and leave it out of later garbage collections.

    Streamlit collects after every click, with the interpreter's lock held: half a million objects of the libraries,
    which never become garbage, took 0.3 s of it each time, in which no page was answered.
    """
    logging.disable(logging.WARNING)  # Streamlit warns of each cache that is made before it runs
    import workbench.app.panels.cards
    import workbench.app.panels.cell
    import workbench.app.panels.demo_form
    import workbench.app.panels.edit
    import workbench.app.panels.how_it_works
    import workbench.app.sidebar
    import workbench.models.hooked  # noqa: F401  (with TransformerLens the slowest import of all)

    logging.disable(logging.NOTSET)

    gc.collect()
    gc.freeze()


def _application(script: Path, door: Door, ready: Callable[[], object]) -> Any:
    """The explorer behind its door; `ready` is called once it answers, and the demo run ends with it."""
    import streamlit as st
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import RedirectResponse
    from starlette.routing import Route

    from workbench.app.server.demo import slot
    from workbench.app.views import PAGES

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        for name in ("uvicorn.error", "uvicorn.access"):  # Streamlit turns them up again: each request, with its token
            logging.getLogger(name).setLevel(logging.WARNING)
        ready()
        yield
        slot().end()

    def at_the_root(request: Request) -> RedirectResponse:
        return RedirectResponse("/" + (f"?{request.url.query}" if request.url.query else ""))

    # Streamlit knows the first page by no name, and has an error for whoever types the one that its tab has.
    first = Route(f"/{next(iter(PAGES))}", at_the_root)
    return st.App(script, routes=[first], middleware=[Middleware(Guard, door=door)], lifespan=lifespan)
