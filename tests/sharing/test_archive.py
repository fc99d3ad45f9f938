"""What is exported comes back as it was; what a stranger made is a run, or is refused and leaves nothing."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import stat
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from workbench import runs, tasks
from workbench.cli import main
from workbench.runs import Run
from workbench.sharing import archive, contents, export, unpack
from workbench.util.files import load_tensors

NAMES = ["README.md", *(f"checkpoints/step-{step}.safetensors" for step in (0, 10, 20)), "config.json"]
NAMES += ["metrics.jsonl", "weights.safetensors"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def everything(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.fixture
def files(trained: Run) -> dict[str, bytes]:
    """The files of a good run, to be spoilt."""
    return files_of(trained.path)


def zipped(path: Path, files: dict[str, bytes], *more: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*files.items(), *more]:
            archive.writestr(name, content)
    return path


def refused(source: Path, match: str) -> None:
    """It is refused in one printable line, and the folder it lies in is as it was."""
    before = everything(source.parent)
    with pytest.raises(ValueError, match=match) as caught:
        unpack(source, source.parent / "new" / "run")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700
    assert str(source) in str(caught.value) and "/.run." not in str(caught.value)
    assert [entry for entry in everything(source.parent) if entry not in before] in ([], new(source))


def new(source: Path) -> list[tuple[str, int]]:
    """The parent folder may be there; it is empty."""
    folder = source.parent / "new"
    assert not list(folder.iterdir()) if folder.exists() else True
    return [(str(folder), folder.lstat().st_mtime_ns)] if folder.exists() else []


@pytest.mark.parametrize("name", ["shared.zip", "shared"])
def test_a_run_comes_back_bit_for_bit(name: str, trained: Run, tmp_path: Path) -> None:
    (trained.path / "inspection").mkdir(exist_ok=True)
    (trained.path / "inspection" / "report.html").write_text("large")
    out = export(trained, tmp_path / name)
    shutil.rmtree(trained.path / "inspection")
    back = unpack(out, tmp_path / "far" / "away")
    assert sorted(files_of(back.path)) == NAMES
    for file in NAMES[1:]:
        assert (back.path / file).read_bytes() == (trained.path / file).read_bytes()
    tokens = trained.task().sample(3, workbench.generator(5)).tokens
    for step in (None, 10, 20):
        assert torch.equal(back.model(step)(tokens), trained.model(step)(tokens))
    assert back.metrics().equals(trained.metrics()) and back.step() == 20 and back.config == trained.config


def test_the_same_run_exports_the_same_bytes(trained: Run, tmp_path: Path) -> None:
    first = export(trained, tmp_path / "first.zip").read_bytes()
    time.sleep(0.01)
    again = unpack(export(trained.path, tmp_path / "folder"), tmp_path / trained.name)
    os.utime(again.path / "config.json", (0, 0))
    assert export(again, tmp_path / "new" / "second.ZIP").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "first.zip") as archive:
        assert archive.namelist() == NAMES and archive.testzip() is None


def test_nothing_is_overwritten(trained: Run, tmp_path: Path) -> None:
    (tmp_path / "file.zip").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    good = export(trained, tmp_path / "good")
    before = everything(tmp_path)
    for name in ("file.zip", "full", "link"):
        with pytest.raises(ValueError, match="already exists, and nothing is overwritten"):
            export(trained, tmp_path / name)
        with pytest.raises(ValueError, match="already exists, and nothing is overwritten"):
            unpack(good, tmp_path / name)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "words",
    [
        "inspect {run} --n 4 --only overall --out {run}",
        "inspect {run} --n 4 --only overall --out {run}/checkpoints/report",
        "probe {run} hops --n 20 --no-causal --out {run}/probed",
        "circuit {run} --n 4 --out {run}/circuit",
        "export {run} {run}/shared",
        "export {run} {run}/shared --hugging-face",
        "train chain-chacal --out {run}/other",
        "data sorting --out {run}/data.jsonl",
        "new task mine --out {run}/mine.py",
    ],
)
def test_nothing_is_written_into_a_run_folder(
    words: str, trained: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that holds anything else is not imported."""
    shutil.copytree(trained.path, tmp_path / "run")
    before = everything(tmp_path)
    assert main(words.format(run=tmp_path / "run").split()) == 2
    assert "run is a run folder, into which nothing else is written" in capsys.readouterr().err
    assert everything(tmp_path) == before


def test_a_task_says_which_files_it_reads_whatever_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Diary(tasks.TASKS["text"]):  # type: ignore[misc]
        files = ("path", "tokenizer", "more")

    monkeypatch.setitem(tasks.TASKS, "diary", Diary)
    for settings, read in (({"path": "a"}, ["a"]), ({"path": "a", "more": ["b", "c"]}, ["a", "b", "c"])):
        assert tasks.files_of({"name": "diary", **settings}) == read
        with pytest.raises(ValueError, match="learned from files of one machine"):
            archive._refuse_tasks_with_files({"name": "diary", **settings}, "it")
    for harmless in ({"name": "diary", "path": None}, {"name": "sorting", "path": "a"}, {"name": "none such"}, 7, None):
        archive._refuse_tasks_with_files(harmless, "it")


def test_what_cannot_be_shared_says_why(trained: Run, tmp_path: Path) -> None:
    unfinished = runs.create(tmp_path / "unfinished", trained.config)
    with pytest.raises(ValueError, match=r"not finished \(step 0 of 20\); `workbench resume .*unfinished` first"):
        export(unfinished, tmp_path / "out")
    (tmp_path / "text.txt").write_text("a text of my own " * 100)
    task = {"name": "text", "path": str(tmp_path / "text.txt"), "block": 8}
    config = {**trained.config.model_dump(), "task": task, "model": {"n_layers": 1, "d_model": 8, "n_heads": 1}}
    text = workbench.train(config, out=tmp_path / "text", progress=False, steps=2, checkpoint_every=None)
    with pytest.raises(ValueError, match="learned from files of one machine"):
        export(text, tmp_path / "out")
    damaged = tmp_path / "damaged"
    shutil.copytree(trained.path, damaged)
    content = bytearray((damaged / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (damaged / "weights.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="is corrupted: it is not what was saved"):
        export(damaged, tmp_path / "out")
    with pytest.raises(ValueError, match=r"there is no .*nothing.zip; `workbench export"):
        unpack(tmp_path / "nothing.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


ELSEWHERE = ["../escaped", "/tmp/escaped", "checkpoints/../../escaped", "checkpoints/../config.json", "C:\\escaped"]
IN_DISGUISE = ["CONFIG.JSON", "Weights.safetensors", "./config.json", "config.json/", "config.json\0", "config.json "]
IN_DISGUISE += ["checkpoints\\step-1.safetensors", "checkpoints/step-01.safetensors", "checkpoints/step-１.safetensors"]
IN_DISGUISE += ["checkpoints/step-1.safetensors/x", "checkpoints/.step-1.safetensors", "checkpoints/step-1.SAFETENSORS"]
MORE = [
    "model.pkl",
    "inner.zip",
    "setup.py",
    "resume/step-1.safetensors",
    ".hidden",
    "a/",
    "\x1b[2J",
    "x\ny",
    "é" * 9000,
]


@pytest.mark.parametrize("name", ELSEWHERE + IN_DISGUISE + MORE, ids=lambda name: ascii(name)[:40])
def test_only_a_run_s_own_names_are_taken_from_a_zip(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("x")
    entry.filename = name
    refused(zipped(tmp_path / "a.zip", files, (entry, files["config.json"])), "it holds .*and nothing else")
    assert not Path("/tmp/escaped").exists()


def test_a_name_is_there_once(files: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = zipped(tmp_path / "a.zip", files, ("config.json", files["config.json"]))
    refused(path, "holds config.json twice")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices_in_a_zip_are_refused(kind: int, files: dict[str, bytes], tmp_path: Path) -> None:
    del files["metrics.jsonl"]
    entry = zipfile.ZipInfo("metrics.jsonl")
    entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
    refused(zipped(tmp_path / "a.zip", files, (entry, b"/etc/passwd")), "is a link, a folder or a device")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_what_can_be_unpacked_in_small_parts_is(method: int, files: dict[str, bytes], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    refused(tmp_path / "a.zip", "compressed in another way")


def test_bombs_are_refused_before_they_go_off(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(zipped(tmp_path / "a.zip", {**files, "metrics.jsonl": b"\n" * (2**26 + 1)}), "67,108,865 bytes, more than")
    refused(zipped(tmp_path / "a.zip", {**files, "config.json": b" " * 2**21}), "config.json has 2,097,152 bytes")
    many = {f"checkpoints/step-{number}.safetensors": b"" for number in range(1, 10_001)}
    refused(zipped(tmp_path / "a.zip", {**files, **many}), "more than 10,000 files")
    monkeypatch.setattr(contents, "MAX_BYTES", 10**6)
    parts = {f"checkpoints/step-{number}.safetensors": bytes(3 * 10**5) for number in (1, 2, 3, 4)}
    refused(zipped(tmp_path / "a.zip", {**files, **parts}), "more than 1,000,000 bytes")


def patched(path: Path, name: str, offset_here: int, offset_there: int, value: int) -> Path:
    """A number in a zip changed both where the file lies and in the list at the end."""
    content = bytearray(path.read_bytes())
    for signature, header, offset in ((b"PK\3\4", 30, offset_here), (b"PK\1\2", 46, offset_there)):
        start = content.index(signature)
        while content[start + header : start + header + len(name)] != name.encode():
            start = content.index(signature, start + 1)
        struct.pack_into("<L", content, start + offset, value)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("size", [10, 3 * 10**6])
def test_a_zip_that_lies_about_sizes_is_refused(size: int, files: dict[str, bytes], tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {**files, "metrics.jsonl": files["metrics.jsonl"] * 100})
    refused(patched(path, "metrics.jsonl", 22, 24, size), "Bad CRC-32|does not have the .* bytes")


def test_what_is_not_quite_a_zip_is_refused(files: dict[str, bytes], tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", files)
    content = path.read_bytes()
    for wrong in (b"", b"PK", content[:-1], content + b"x", content[:-22], content[: len(content) // 2], b"x" * 99):
        path.write_bytes(wrong)
        refused(path, "it is not a zip, is cut short, or has something behind its end")
    path.write_bytes(content)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"PK\5\6"
    refused(path, "is refused")
    long = bytearray(content)
    struct.pack_into("<HHL", long, len(content) - 14, 60_000, 60_000, 2**31)
    path.write_bytes(long)
    refused(path, "of more than 10,000 files")
    with zipfile.ZipFile(path, "w") as archive, archive.open("config.json", "w", force_zip64=True) as file:
        file.write(b"{}")
    refused(path, "is refused: it has no metrics.jsonl")


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["weights.safetensors", "checkpoints/step-10.safetensors", "config.json"])
def test_nothing_is_unpickled(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    executed = tmp_path / "executed"
    refused(zipped(tmp_path / "a.zip", {**files, name: pickle.dumps(Malicious(executed))}), "is refused")
    torch.save({"weight": Malicious(executed)}, tmp_path / "weights.pt")
    refused(zipped(tmp_path / "a.zip", {**files, name: (tmp_path / "weights.pt").read_bytes()}), "is refused")
    assert not executed.exists()


def test_a_folder_of_a_stranger_is_held_to_the_same(trained: Run, tmp_path: Path) -> None:
    def spoilt(change: Callable[[Path], object]) -> Path:
        shutil.rmtree(tmp_path / "theirs", ignore_errors=True)
        shutil.copytree(trained.path, tmp_path / "theirs")
        change(tmp_path / "theirs")
        return tmp_path / "theirs"

    def linked(folder: Path, name: str) -> None:
        (folder / name).rename(tmp_path / "moved")
        (folder / name).symlink_to(tmp_path / "moved")

    def piped(folder: Path) -> None:
        (folder / "metrics.jsonl").unlink()
        os.mkfifo(folder / "metrics.jsonl")

    refused(spoilt(lambda folder: (folder / "run.py").touch()), "holds 'run.py'")
    refused(spoilt(lambda folder: (folder / "resume").mkdir()), "holds 'resume'")
    refused(spoilt(lambda folder: (folder / "checkpoints" / "more").mkdir()), "holds 'checkpoints/more'")
    refused(spoilt(lambda folder: linked(folder, "metrics.jsonl")), "is a link, a folder or a device")
    (tmp_path / "moved").unlink()
    refused(spoilt(lambda folder: linked(folder, "checkpoints")), "holds 'checkpoints'")
    refused(spoilt(piped), "is a link, a folder or a device")
    refused(spoilt(lambda folder: (folder / "weights.safetensors").unlink()), "has no weights.safetensors")


@pytest.mark.parametrize("seed", range(3))
def test_no_damage_does_more_than_be_refused(seed: int, files: dict[str, bytes], tmp_path: Path) -> None:
    """What is taken all the same has the weights that it had: their checksum saw to it."""
    rng = random.Random(seed)
    path = zipped(tmp_path / "a.zip", files)
    content, weights = path.read_bytes(), load_tensors_of(files, tmp_path)
    for number in range(60):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 3))):
            place = rng.randrange(len(content) - 900 if number % 2 else 0, len(content) - 9)
            if number % 3:
                damaged[place] ^= 1 << rng.randrange(8)
            else:
                damaged[place : place + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
        path.write_bytes(damaged)
        try:
            run = unpack(path, tmp_path / "run")
        except ValueError as error:
            assert str(error).isprintable() and not (tmp_path / "run").exists()
        else:
            assert all(torch.equal(load_tensors(run.path / "weights.safetensors")[0][n], weights[n]) for n in weights)
            shutil.rmtree(run.path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "right.safetensors"]


def load_tensors_of(files: dict[str, bytes], folder: Path) -> dict[str, torch.Tensor]:
    (folder / "right.safetensors").write_bytes(files["weights.safetensors"])
    return {name: tensor.clone() for name, tensor in load_tensors(folder / "right.safetensors")[0].items()}


def test_unpacked_json_is_what_was_packed(files: dict[str, bytes], tmp_path: Path) -> None:
    """A zip by anyone's tool, compressed, with an entry for the folder and without a model card."""
    entry = zipfile.ZipInfo("checkpoints/")
    entry.external_attr = (stat.S_IFDIR | 0o755) << 16
    run = unpack(zipped(tmp_path / "a.zip", files, (entry, b"")), tmp_path / "run")
    assert json.loads((run.path / "config.json").read_bytes()) == json.loads(files["config.json"])
