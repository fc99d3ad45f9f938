"""Checks of who may send requests to the explorer's server, and who may let it write.

Any web page can send a browser to a name that resolves to this machine (DNS rebinding), so a request is answered only
if it uses a known name of this machine, such as `localhost`, and comes from a page of this server. Any program on this
machine can send requests too; those that train or write must therefore have the token in the address that
`workbench explore` printed, as with Jupyter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from secrets import compare_digest, token_urlsafe
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OF_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d+)?")  # an IPv6 address or a name, and the port
TOKEN = "token"
MOST_PAGES = 100
"""Pages open at once without the token: each holds four descriptors, of about 1,000 that a process may have."""

# What a page may load: only what this server sent. The figures' library compiles code, and so needs 'unsafe-eval'.
POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)


@dataclass(frozen=True)
class Door:
    """Which requests a server answers.

    Attributes:
        names: the names that it is asked by, without a port.
        token: what proves that the asker has read the started address.
        cookie: under which a browser keeps it: another server on another port has another.
    """

    names: frozenset[str]
    token: str
    cookie: str

    @staticmethod
    def made(port: int, more: Iterable[str] = ()) -> Door:
        """A new door, with a new token; `more` names are answered too."""
        names = frozenset(name.strip("[]").lower() for name in (*OF_THIS_MACHINE, *more))
        return Door(names, token_urlsafe(24), f"workbench-{port}")

    def refusal(self, headers: Headers) -> str | None:
        """Why a request with these headers is refused, in one line; None if it is answered."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        match = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None or (match[1] or match[2]).lower() not in self.names:
            return f"this server answers to {', '.join(sorted(self.names))}; others are given by `--host NAME`"
        if any(urlsplit(origin).netloc.lower() != hosts[0].lower() for origin in origins):
            return "this server answers only pages of its own"
        return None

    def knows(self, given: str | None) -> bool:
        """Whether this is the token."""
        return given is not None and compare_digest(given.encode(), self.token.encode())


class Guard:
    """The server's first part: refuses whom the door refuses, over HTTP and WebSocket alike, and one page too many."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door
        self.pages = 0  # open without the token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        refusal = self.door.refusal(Headers(scope=scope))
        if scope["type"] == "websocket":
            await self._page(scope, receive, send, refusal)
        elif refusal is not None:
            await PlainTextResponse(refusal, status_code=421)(scope, receive, send)
        elif (entered := self._entered(scope)) is not None:
            await entered(scope, receive, send)
        else:
            await self.app(scope, receive, _with_policy(send))

    async def _page(self, scope: Scope, receive: Receive, send: Send, refusal: str | None) -> None:
        """Serve the WebSocket of a page for as long as it is open; whoever has the token is never one too many."""
        from starlette.requests import HTTPConnection

        counts = not self.door.knows(HTTPConnection(scope).cookies.get(self.door.cookie))
        if refusal is None and counts and self.pages >= MOST_PAGES:
            refusal = f"{MOST_PAGES} pages are open; close some, or use the address with the token"
        if refusal is not None:
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})
            return
        self.pages += counts
        try:
            await self.app(scope, receive, send)
        finally:
            self.pages -= counts

    def _entered(self, scope: Scope) -> Response | None:
        """For an address with a token: the same without, so that it is in no link, and the right one as a cookie."""
        from starlette.responses import RedirectResponse

        fields = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] != "GET" or TOKEN not in dict(fields):
            return None
        rest = urlencode([field for field in fields if field[0] != TOKEN])
        path = "/" + scope["path"].lstrip("/")  # two slashes would be another server's name
        response = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
        if self.door.knows(dict(fields)[TOKEN]):
            response.set_cookie(self.door.cookie, self.door.token, httponly=True, samesite="strict")
        return response


def _with_policy(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", []), (b"content-security-policy", POLICY.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return sending


_door: Door | None = None


def stand_at(door: Door) -> None:
    """Say which door this process's server has."""
    global _door
    _door = door


def may_write() -> bool:
    """Whether the browser that this session draws for has the token. Without a server of ours, nobody may."""
    import streamlit as st

    return _door is not None and _door.knows(st.context.cookies.get(_door.cookie))
