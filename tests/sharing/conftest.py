"""A small run to share, and a stand-in of the Hugging Face Hub that the Hub's own client talks to over HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from huggingface_hub import HfApi, constants

import workbench

SMALL: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2},
    "objectives": {"seq_vcr": {"layer": -1, "projection": 12}},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 20,
    "eval_every": 10,
    "log_every": 1,
    "checkpoint_every": 10,
}
TOKEN = "hf_of_the_tests"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> workbench.runs.Run:
    """A finished run with two checkpoints; nobody changes it."""
    return workbench.train("chain-chacal", out=tmp_path_factory.mktemp("runs") / "chain", progress=False, **SMALL)


@dataclass
class Repository:
    private: bool = False
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=lambda: [("0" * 40, {".gitattributes": b""})])

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit[0] == revision), None)

    def commit(self, files: dict[str, bytes]) -> str:
        sha = hashlib.sha1(repr((len(self.commits), sorted(files.items()))).encode()).hexdigest()
        self.commits.append((sha, files))
        return sha


class Hub(ThreadingHTTPServer):
    """What `push` and `pull` need of the Hub: https://huggingface.co/docs/hub/api, as its client calls it.

    Attributes:
        repositories: by name, each with its commits.
        large: sha256 -> what was uploaded as a large file (git LFS).
        stores_large: whether weights are large files, or lie in git like the others.
        failing: part of a path -> the HTTP status with which it fails.
        asked: every request, as "METHOD /path".
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.stores_large = True
        self.failing: dict[str, int] = {}
        self.asked: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def client(self, token: str | None = TOKEN) -> HfApi:
        return HfApi(endpoint=self.endpoint, token=token if token is not None else False)

    def put(self, name: str, files: dict[str, bytes]) -> str:
        """A repository as anyone may have filled it."""
        return self.repositories.setdefault(name, Repository()).commit(files)


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    ROUTES = (
        ("POST", r"/api/repos/create", "create"),
        ("POST", r"/api/validate-yaml", "validate"),
        ("GET", r"/api/models/(\w+/[\w.-]+)(?:/revision/([^/]+))?", "info"),
        ("GET", r"/api/models/(\w+/[\w.-]+)/tree/([^/]+)", "tree"),
        ("POST", r"/api/models/(\w+/[\w.-]+)/preupload/main", "preupload"),
        ("POST", r"/api/models/(\w+/[\w.-]+)/commit/main", "commit"),
        ("POST", r"/(\w+/[\w.-]+)\.git/info/lfs/objects/batch", "batch"),
        ("PUT", r"/lfs/(\w+)", "upload"),
        ("GET", r"/(\w+/[\w.-]+)/resolve/([^/]+)/(.+)", "resolve"),
    )

    def handle_any(self) -> None:
        path = urlsplit(self.path).path
        length = self.headers.get("Content-Length")
        self.content = self.rfile.read(int(length)) if length else b""
        self.server.asked.append(f"{self.command} {unquote(path)}")
        failing = next((status for part, status in self.server.failing.items() if part in path), None)
        if failing is not None:
            return self.answer(failing, {"error": "said the stand-in"})
        method = "GET" if self.command == "HEAD" else self.command
        if method == "POST" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "Invalid username or password."})
        for wanted, pattern, name in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if method == wanted and match:
                return getattr(self, name)(*(unquote(group) if group else group for group in match.groups()))
        raise AssertionError(f"the stand-in does not know {self.command} {path}")

    do_GET = do_POST = do_PUT = do_HEAD = handle_any  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None: ...

    def answer(self, status: int, content: Any = None, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def found(self, name: str, revision: str | None) -> tuple[str, dict[str, bytes]] | None:
        """A commit's files; answers itself if there are none."""
        repository = self.server.repositories.get(name)
        visible = repository is not None and (
            not repository.private or self.headers.get("Authorization") == f"Bearer {TOKEN}"
        )
        commit = repository.at(revision or "main") if repository is not None and visible else None
        if commit is None:
            self.answer(404, {}, X_Error_Code="RevisionNotFound" if visible else "RepoNotFound")
        return commit

    def create(self) -> None:
        asked = json.loads(self.content)
        name = f"{asked['organization']}/{asked['name']}"
        status = 409 if name in self.server.repositories else 200
        self.server.repositories.setdefault(name, Repository(asked.get("visibility") == "private"))
        self.answer(status, {"url": f"{self.server.endpoint}/{name}"})

    def validate(self) -> None:
        _, front, _ = json.loads(self.content)["content"].split("---\n", 2)
        assert isinstance(yaml.safe_load(front), dict)
        self.answer(200, {"errors": [], "warnings": []})

    def info(self, name: str, revision: str | None) -> None:
        if commit := self.found(name, revision):
            sizes = "blobs=" in self.path
            files = [{"rfilename": path, **({"size": len(b)} if sizes else {})} for path, b in commit[1].items()]
            private = self.server.repositories[name].private
            self.answer(200, {"id": name, "sha": commit[0], "private": private, "siblings": files})

    def tree(self, name: str, revision: str) -> None:
        if commit := self.found(name, revision):
            blobs = commit[1].items()
            self.answer(200, [{"type": "file", "path": path, "size": len(b), "oid": "0" * 40} for path, b in blobs])

    def preupload(self, name: str) -> None:
        def mode(path: str) -> str:
            return "lfs" if self.server.stores_large and path.endswith(".safetensors") else "regular"

        files = [file["path"] for file in json.loads(self.content)["files"]]
        answer = [{"path": path, "uploadMode": mode(path), "shouldIgnore": False} for path in files]
        self.answer(200, {"files": answer})

    def batch(self, name: str) -> None:
        objects = json.loads(self.content)["objects"]
        actions = [
            {**o, "actions": {"upload": {"href": f"{self.server.endpoint}/lfs/{o['oid']}", "header": {}}}}
            for o in objects
        ]
        self.answer(200, {"transfer": "basic", "objects": actions})

    def upload(self, oid: str) -> None:
        assert hashlib.sha256(self.content).hexdigest() == oid
        self.server.large[oid] = self.content
        self.answer(200, {})

    def commit(self, name: str) -> None:
        files = dict(self.server.repositories[name].commits[-1][1])
        for line in map(json.loads, self.content.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
            else:
                assert line["key"] == "header"
        sha = self.server.repositories[name].commit(files)
        url = f"{self.server.endpoint}/{name}/commit/{sha}"
        self.answer(200, {"commitUrl": url, "commitOid": sha, "success": True})

    def resolve(self, name: str, revision: str, path: str) -> None:
        if commit := self.found(name, revision):
            content = commit[1][path]
            self.answer(200, content, ETag=f'"{hashlib.sha256(content).hexdigest()}"', X_Repo_Commit=commit[0])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    for name, value in {"HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_PROGRESS_BARS": True}.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the stand-in speaks HTTP, not xet's own protocol
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
