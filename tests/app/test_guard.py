"""Who is answered by the explorer's server, and for whom it trains."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from workbench.app.server import guard
from workbench.app.server.guard import Door, Guard
from workbench.app.server.serve import listen

OURS = ("localhost:8501", "LOCALHOST:8501", "127.0.0.1:8501", "[::1]:8501", "tunnel.example", "localhost")
THEIRS = (
    "evil.example:8501",
    "localhost.evil.example:8501",
    "127.0.0.1.evil.example",
    "192.168.0.7:8501",
    "evil.example@localhost",
    "localhost:8501/evil",
    "[::2]",
    "[",
    "",
)


@pytest.fixture
def door() -> Door:
    return Door.made(8501, ["Tunnel.example"])


@pytest.fixture
def client(door: Door) -> TestClient:
    async def page(_: Any) -> PlainTextResponse:
        return PlainTextResponse("the page")

    async def stream(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("the stream")
        await socket.close()

    routes = [Route("/{path:path}", page, methods=["GET", "POST"]), WebSocketRoute("/{path:path}", stream)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(Guard, door=door)]), follow_redirects=False)


def heard(client: TestClient, headers: dict[str, str]) -> bool:
    try:
        with client.websocket_connect("/_stcore/stream", headers=headers) as socket:
            return bool(socket.receive_text() == "the stream")
    except WebSocketDisconnect:
        return False


@pytest.mark.parametrize("host", OURS)
def test_this_machine_s_names_and_those_given_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/canvas?run=a", headers={"host": host}).text == "the page"
    assert heard(client, {"host": host})
    assert heard(client, {"host": host, "origin": f"http://{host}"})


@pytest.mark.parametrize("host", THEIRS)
def test_any_other_name_is_refused_over_http_and_websocket(client: TestClient, host: str) -> None:
    refused = client.get("/", headers={"host": host})
    assert refused.status_code == 421 and "--host" in refused.text and "the page" not in refused.text
    assert not heard(client, {"host": host}) and not heard(client, {"host": host, "origin": f"http://{host}"})


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:8000", "https://127.0.0.1:8501", "null"])
def test_a_page_of_another_server_is_refused_another_port_of_this_machine_included(
    client: TestClient, origin: str
) -> None:
    headers = {"host": "localhost:8501", "origin": origin}
    assert client.get("/", headers=headers).status_code == client.post("/", headers=headers).status_code == 421
    assert not heard(client, headers)


def test_so_many_pages_are_open_at_once_and_whoever_has_the_token_gets_in(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program on this machine could open pages until the server had no descriptor left."""

    async def stream(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("the stream")
        await socket.receive()

    monkeypatch.setattr(guard, "MOST_PAGES", 3)
    routes = [WebSocketRoute("/{path:path}", stream)]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(Guard, door=door)]))
    theirs, forged, ours = (
        {"host": "localhost"},
        *({"host": "localhost", "cookie": f"{door.cookie}={token}"} for token in ("guessed", door.token)),
    )
    for _ in range(2):
        with ExitStack() as pages:
            for headers in (theirs, forged, theirs):
                pages.enter_context(client.websocket_connect("/_stcore/stream", headers=headers))
            assert not heard(client, theirs) and not heard(client, forged)
            for _ in range(5):
                assert pages.enter_context(client.websocket_connect("/", headers=ours)).receive_text() == "the stream"
            assert not heard(client, theirs)
    assert heard(client, theirs), "those that were closed make room"


def test_two_host_headers_are_none(client: TestClient) -> None:
    assert client.get("/", headers=[("host", "localhost"), ("host", "evil.example")]).status_code == 421


def test_the_token_becomes_a_cookie_and_leaves_the_address(client: TestClient, door: Door) -> None:
    ours = {"host": "localhost:8501"}
    entered = client.get(f"/canvas?run=a&token={door.token}&layer=1", headers=ours)
    assert entered.status_code == 303 and entered.headers["location"] == "/canvas?run=a&layer=1"
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"workbench-8501={door.token};")
    assert {"httponly", "samesite=strict"} <= set(cookie.lower().split("; "))
    wrong = client.get("/?token=guessed", headers=ours)
    assert wrong.status_code == 303 and wrong.headers["location"] == "/" and "set-cookie" not in wrong.headers
    away = client.get("//evil.example/x?token=guessed", headers=ours)
    assert away.headers["location"].startswith("/") and not away.headers["location"].startswith("//")
    assert client.get(f"/?token={door.token}", headers={"host": "evil.example"}).status_code == 421


def test_a_page_may_load_from_this_server_alone(client: TestClient) -> None:
    policy = client.get("/", headers={"host": "localhost"}).headers["content-security-policy"]
    assert "default-src 'self'" in policy and "http" not in policy and "*" not in policy


def test_only_who_has_the_token_may_write(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    cookies: dict[str, str] = {}
    monkeypatch.setattr(type(st.context), "cookies", property(lambda _: cookies))
    assert not guard.may_write()  # no server of ours
    monkeypatch.setattr(guard, "_door", door)
    assert not guard.may_write()
    for wrong in ("", "x", door.token[:-1], f"{door.token}x", "é"):
        cookies[door.cookie] = wrong
        assert not guard.may_write()
    cookies[door.cookie] = door.token
    assert guard.may_write()
    assert Door.made(8501).token != door.token


def test_a_taken_port_is_said_before_anything_is_imported() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} cannot be had .*--port"):
            listen(port)
    first = listen(port)
    try:
        with pytest.raises(ValueError, match="cannot be had"):
            listen(port)
    finally:
        for one in first:
            one.close()
