"""The MCP server, as a client starts it: what it offers, what it answers, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import workbench
from tests.docs.pages import ROOT
from workbench.runs.compiled import compile_run

pytest.importorskip("mcp")

from mcp import ClientSession, StdioServerParameters, stdio_client

Asked = Callable[[ClientSession], Awaitable[Any]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, and beside it a run, a file and a model that are none of a client's business."""
    place = tmp_path_factory.mktemp("mcp")
    small: dict[str, Any] = {"task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    workbench.train("chain-chacal", out=place / "runs/tiny", steps=2, progress=False, **small)
    compile_run("sorter", place / "runs/sorter", {"q": 5, "max_length": 4})
    shutil.copytree(place / "runs/tiny", place / "secret")
    shutil.copytree(ROOT / "tests/golden/runs/learned", place / "runs/nested/learned")
    (place / "secret.json").write_text('{"secret": 1}')
    (place / "runs/notes.txt").write_text("no run")
    (place / "runs/link").symlink_to(place / "secret")
    (place / "runs/link.json").symlink_to(place / "secret.json")
    return place / "runs"


def connected(root: Path, asks: Asked, *options: str) -> Any:
    """What a client gets of a server of its own."""

    async def ask() -> Any:
        command = ["-m", "workbench", "mcp", "--root", str(root), *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            return await asks(session)

    return anyio.run(ask)


async def called(session: ClientSession, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool refuses, and what it says."""
    result = await session.call_tool(tool, arguments)
    return bool(result.is_error), "\n".join(part.text for part in result.content)


def before_and_after(root: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in sorted(root.rglob("*"))}


def test_a_client_lists_inspects_and_probes_and_nothing_is_written(root: Path) -> None:
    files = before_and_after(root)

    async def asks(session: ClientSession) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {"list_runs", "inspect", "probe", "circuit", "heads", "patch", "check", "table"} < set(tools)
        assert not {"train", "write_report"} & set(tools)
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())
        refused, said = await called(session, "list_runs")
        assert not refused and "tiny: pointer_chain, finished at step 2" in said and "link that leads out of" in said
        refused, said = await called(session, "list_runs", form="json", where=["task.n=8"])
        assert [run["run"] for run in json.loads(said)["runs"]] == ["tiny"]
        refused, said = await called(session, "inspect", run="sorter", only=["accuracy", "minimum"], n=4)
        assert not refused and "100" in said
        refused, said = await called(session, "probe", run="tiny", question="ancestor_1", n=40, form="json")
        assert not refused and json.loads(said)["format"] == "probe/1" and json.loads(said)["findings"]
        refused, said = await called(session, "patch", model="nested/learned", n=8)
        assert not refused and "on the clean questions" in said
        assert (await called(session, "check", model="sorter"))[0] is False
        refused, said = await called(session, "json_schemas", command="patch")
        assert json.loads(said)["$id"].endswith(":patch/1")
        refused, said = await called(session, "read_file", path="tiny/config.json")
        assert json.loads(said)["seed"] == 0
        refused, said = await called(session, "table", runs=["tiny"], by="task.name")
        assert not refused and "pointer_chain" in said and "note: " not in said
        refused, said = await called(session, "table", runs=["tiny", "notes.txt"], by="task.name")
        assert not refused and "pointer_chain" in said and "\nnote: " in said and "notes.txt" in said

    connected(root, asks)
    assert before_and_after(root) == files


def test_what_is_outside_the_root_is_refused_in_a_line(root: Path) -> None:
    names = ("../secret", "link", f"{root.parent}/secret", "nested/../../secret", "gpt2")

    async def asks(session: ClientSession) -> None:
        for tool, argument in (("inspect", "run"), ("heads", "model"), ("generate", "model"), ("read_finding", "run")):
            more = {"prompt": "1"} if tool == "generate" else {}
            for name in names:
                refused, said = await called(session, tool, **{argument: name}, **more)
                assert refused and "\n" not in said and "Traceback" not in said
                assert ("there is no run folder" if name == "gpt2" else "outside which nothing is read") in said

    connected(root, asks)


def test_files_and_texts_outside_and_wrong_arguments_are_refused_in_a_line(root: Path) -> None:
    async def asks(session: ClientSession) -> None:
        for tool, arguments, why in (
            ("read_file", {"path": "../secret.json"}, "outside which nothing is read"),
            ("read_file", {"path": "link.json"}, "outside which nothing is read"),
            ("read_file", {"path": "tiny/weights.safetensors"}, "a file to read ends in"),
            ("patch", {"model": "tiny", "pairs": "/etc/passwd"}, "outside which nothing is read"),
            ("table", {"runs": [".."], "by": "seed"}, "outside which nothing is read"),
            ("inspect", {"run": "."}, "is the root itself"),
            (
                "inspect",
                {"run": "tiny", "onyl": ["accuracy"]},
                "unknown argument of inspect 'onyl' (did you mean 'only'?)",
            ),
            ("inspect", {"run": "tiny", "n": 1}, "greater than or equal to 2, not 1"),
            ("inspect", {"run": "tiny", "only": ["acuracy"]}, "did you mean 'accuracy'"),
            ("probe", {"run": "tiny", "question": "unheard"}, "unheard"),
            ("train", {"preset": "chain-chacal", "out": "new"}, "unknown tool 'train'"),
            ("write_report", {"run": "tiny"}, "unknown tool 'write_report'"),
        ):
            refused, said = await called(session, tool, **arguments)
            assert refused and why in said and "\n" not in said, (tool, arguments, said)

    files = before_and_after(root)
    connected(root, asks)
    assert before_and_after(root) == files


def test_with_the_flag_it_trains_and_reports_under_the_root_alone_and_the_page_names_every_tool(root: Path) -> None:
    settings = {"task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    page = (ROOT / "docs/how-to/agents.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, flags=re.M)

    async def asks(session: ClientSession) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert list(tools) == rows and tools["train"].annotations.read_only_hint is False
        wanted = {"preset": "chain-chacal", "steps": 2, "settings": settings}
        assert (await called(session, "train", out="../elsewhere", **wanted))[0]
        text = {"preset": "text-standard", "out": "text", "steps": 1}
        refused, said = await called(session, "train", **text, settings={"task": {"path": "/etc/passwd"}})
        assert refused and "/etc/passwd" in said and "not in" in said
        refused, said = await called(session, "train", out="made", **wanted)
        assert not refused and said.startswith("trained made: 2 steps; ")
        refused, said = await called(session, "train", out="made", **wanted)
        assert refused and "already exists" in said
        refused, said = await called(session, "write_report", run="made", only=["accuracy"], n=4)
        assert not refused and "report: made/inspection/report.html" in said

    connected(root, asks, "--allow-writing")
    assert (root / "made/inspection/report.html").is_file()
    assert not (root.parent / "elsewhere").exists() and not (root / "text").exists()


def test_ctrl_c_ends_it_while_it_waits_for_the_client(root: Path) -> None:
    command = [sys.executable, "-m", "workbench", "mcp", "--root", str(root)]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode())
        server.stdin.write(b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "workbench"
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == -signal.SIGINT
