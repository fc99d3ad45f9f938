"""Run folders from strangers: whatever is in them, opening one is an answer or one clear line, and nothing else."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import random
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench
from workbench.cli import main
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.runs import Run, load_run, scan_runs
from workbench.runs.listing import table
from workbench.tasks import TEXTS
from workbench.training import TrainingError
from workbench.training.optimizer_step import Step
from workbench.util.files import load_tensors, save_tensors
from workbench.util.messages import brief, harmless

ROOT = Path(__file__).parents[1]
TINY: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 8, "n_heads": 2, "d_mlp": 8},
    "objectives": {"seq_vcr": {"layer": -1, "projection": 4}},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 6,
    "eval_every": 3,
    "log_every": 1,
    "save_every": 2,
    "checkpoint_every": 3,
}
HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[/red][link=http://evil]",
    "two\nlines\r",
    "\u202egnp.exe\u2066",
    "\ud800",
    "../../outside/secret.txt",
    "/etc/passwd",
    "/dev/zero",
    "a\0b",
    "{0.__class__}",
    "__import__('os').system('touch canary')",
    "A" * 100_000,
    "9" * 4000,
    "",
]
NUMBERS = [0, -1, 1, 2, 3, 7, 2**31, 2**53, 10**9, 10**12, 10**15, 10**30, -(10**12), 0.5, 1.5, 1e308, -0.0, 1e-320]
SPECIAL = [float("nan"), float("inf"), True, False, None, [], {}, [[]], {"name": "text", "path": "/etc/passwd"}, "meta"]


class Bomb:
    """What leaves a canary if anyone unpickles it."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return Path.write_text, (self.canary, "dead")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`runs/`, where cases are put; `originals/`, a finished run and a killed one; `outside/`, not to be touched."""
    place = tmp_path_factory.mktemp("safety")
    workbench.train("chain-chacal", out=place / "originals" / "finished", progress=False, **TINY)
    step = Step.__call__

    def killed(self: Step, *arguments: Any) -> Any:
        if self.learner.step == 5:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            workbench.train("chain-chacal", out=place / "originals" / "killed", progress=False, **TINY)
    assert load_run(place / "originals" / "killed").step() == 4
    (place / "runs").mkdir()
    shutil.copytree(place / "originals" / "finished", place / "outside" / "run")
    (place / "outside" / "secret.txt").write_text("a text that no config may name")
    (place / "outside" / ".lock").touch()
    before = Path.cwd()
    os.chdir(place / "outside")  # what a relative path would reach
    yield place
    os.chdir(before)


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def answers(action: Callable[[], Any]) -> Any:
    """Its answer, or one short harmless line; anything else is a failure."""
    try:
        return action()
    except (ValueError, TrainingError) as error:
        said = str(error)
        assert said and said.isprintable() and len(said) < 1000, said
        return None


def prints(arguments: list[str]) -> None:
    """The same on the command line."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    assert code in (0, 1, 2) and "Traceback" not in err.getvalue(), err.getvalue()
    assert all(line.isprintable() for text in (out, err) for line in text.getvalue().split("\n"))
    assert code == 0 or (err.getvalue().count("\n") == 1 and len(err.getvalue()) < 1000)


def small(run: Run) -> bool:
    """Whether going on with it takes no time."""
    config, task = run.config, run.task()
    sizes = (config.steps, config.batch_size, config.eval_size, task.n_ctx, config.model.d_model, config.model.n_heads)
    wide = (config.model.d_head, config.model.d_mlp, config.model.d_vocab, *config.model.heads.values())
    return max(*sizes, *wide) <= 64 and config.model.n_layers <= 4 and config.workers == 0


def open_it(folder: Path, on_command_line: bool) -> None:
    """All that anyone does with a run folder."""
    run = answers(lambda: load_run(folder))
    if run is not None:
        assert run.name.isprintable()
        for action in (run.model, run.metrics, run.log, run.step, lambda: run.version):
            answers(action)
        for step in run.checkpoints():
            answers(lambda step=step: run.model(step))
        if not run.finished and small(run):
            if on_command_line:
                prints(["resume", str(folder), "--quiet"])
            else:
                answers(lambda: workbench.resume(folder, progress=False))
    assert all(problem.isprintable() for problem in table(folder.parent)[1])
    if on_command_line:
        prints(["runs", "--root", str(folder.parent)])


def files_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def bytes_of_any_file(folder: Path, rng: random.Random) -> None:
    path = rng.choice(files_in(folder))
    content = bytearray(path.read_bytes())
    at, upto = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    match rng.randrange(7):
        case 0:
            content[at:] = b""
        case 1:
            content[at:upto] = rng.randbytes(upto - at)
        case 2:
            content[at:at] = rng.randbytes(rng.randrange(40))
        case 3:
            content[at:upto] = bytes(upto - at)
        case 4:
            del content[at:upto]
        case 5:
            content = bytearray(rng.choice(files_in(folder)).read_bytes())
        case _:
            for _ in range(rng.randrange(1, 8) if content else 0):
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def value(rng: random.Random) -> Any:
    return rng.choice([rng.choice(HOSTILE), rng.choice(NUMBERS), rng.choice(SPECIAL), rng.randrange(-3, 70)])


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in plain data."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from places(data[key])


def a_value_of_the_config(folder: Path, rng: random.Random) -> None:
    config = json.loads((folder / "config.json").read_text())
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        found = list(places(config)) or [(config, "x")]
        container, key = rng.choice(found)
        match rng.randrange(6):
            case 0 if key in container:
                del container[key]
            case 1 if isinstance(container, dict):
                container[rng.choice([*HOSTILE, "self", "config", "name", "variant", "layer"])] = value(rng)
            case 2:
                source, other = rng.choice(found)
                container[key] = json.loads(json.dumps(source.get(other) if isinstance(source, dict) else source))
            case _:
                container[key] = value(rng)
    (folder / "config.json").write_text(json.dumps(config))


def the_text_of_the_config(folder: Path, rng: random.Random) -> None:
    text = (folder / "config.json").read_text()
    hostile = [
        "[" * 100_000,
        '{"format": 1, "task": ' + '{"a": ' * 5000 + "1" + "}" * 5001,
        text.replace('"steps"', '"steps": 1, "steps"'),
        "\ufeff" + text,
        text.replace('"steps": 6', '"steps": ' + "9" * 5000),
        text.replace('"steps": 6', '"steps": 1e999'),
        text.replace('"seed": 0', '"seed": -Infinity'),
        text.replace("6", "\0"),
        text + text,
        text.replace('"seed"', '"se\\u0065d": 1, "seed"'),
        " " * 2**21 + text,
        "null",
    ]
    (folder / "config.json").write_text(rng.choice(hostile), encoding="utf-8")


def lines_of_the_log(folder: Path, rng: random.Random) -> None:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    hostile = [
        json.dumps({"step": value(rng), "accuracy": value(rng)}),
        json.dumps({"event": value(rng), "step": value(rng)}),
        json.dumps({"step": 3, "x": value(rng)}),
        json.dumps([value(rng)]),
        "[" * 100_000,
        "9" * 5000,
        "\x1b[2J",
        "{}",
        "",
    ]
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(hostile))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")


def tensors_with_a_true_checksum(folder: Path, rng: random.Random) -> None:
    """A stranger can make checksums as well."""
    path = rng.choice([p for p in files_in(folder) if p.suffix == ".safetensors"])
    tensors, metadata = load_tensors(path)
    name = rng.choice(sorted(tensors))
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
    match rng.randrange(8):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = tensors[name].to(rng.choice([*kinds, torch.float8_e4m3fn]))
        case 2:
            tensors[name] = torch.zeros([rng.randrange(5) for _ in range(rng.randrange(5))], dtype=tensors[name].dtype)
        case 3:
            tensors[rng.choice([*HOSTILE[:6], "model.x", "optimizer.x.y", "optimizer.99.step", "random.x"])] = tensors[
                name
            ].clone()
        case 4:
            metadata[rng.choice(["step", "seconds", "x"])] = str(value(rng)).encode("utf-8", "replace").decode()
        case 5:
            metadata.pop(rng.choice(sorted(metadata)))
        case 6:
            steps = [key for key in tensors if key.endswith(".step")] or [name]
            tensors[rng.choice(steps)].fill_(rng.choice([float("nan"), -1.0, -1e30, 1e30, 0.0, 255.0]))
        case _:
            tensors[name] = tensors[name].flip(0) if tensors[name].ndim else tensors[name] - 1
            tensors[name].view(-1)[0] = float("nan") if tensors[name].is_floating_point() else 0
    metadata.pop("format", None)
    save_tensors(path, tensors, metadata)


def a_header(folder: Path, rng: random.Random) -> None:
    path = rng.choice([p for p in files_in(folder) if p.suffix == ".safetensors"])
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = rng.choice([key for key in header if key != "__metadata__"])
    entry = header[name]
    match rng.randrange(9):
        case 0:
            entry["data_offsets"] = [rng.choice(NUMBERS), rng.choice(NUMBERS)]
        case 1:
            entry["data_offsets"] = rng.choice([e["data_offsets"] for k, e in header.items() if k != "__metadata__"])
        case 2:
            entry["dtype"] = rng.choice(["F4", "F8_E8M0", "I64", "U16", "C64", "object", "", 3, None, "BOOL"])
        case 3:
            entry["shape"] = rng.choice([[10**18], [2**40, 2**40], [-1], [], [0], "x", None, entry["shape"][::-1]])
        case 4:
            header[rng.choice(["__metadata__", name])] = rng.choice([value(rng), {"step": 3}, {"a": {"b": "c"}}])
        case 5:
            header["__metadata__"] = {key: "[" * 10_000 for key in header["__metadata__"]}
        case 6:
            header = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(5000)}
        case _:
            pass
    text = json.dumps(header, ensure_ascii=rng.random() < 0.9).encode("utf-8", "surrogatepass")
    said = rng.choice([len(text)] * 8 + [0, 1, 2**63, 2**64 - 1, 10**8 + 1, len(text) - 1, len(text) + len(rest) + 1])
    if rng.random() < 0.05:
        text, said = b"[" * 100_000, 100_000
    path.write_bytes(struct.pack("<Q", said) + text + rest)


def a_pickle(folder: Path, rng: random.Random) -> None:
    path, bomb = rng.choice(files_in(folder)), Bomb(folder.parents[1] / "outside" / "canary")
    content = pickle.dumps(bomb, protocol=rng.randrange(6))
    if rng.random() < 0.5:
        buffer = io.BytesIO()
        torch.save({"token_embedding.weight": bomb}, buffer)
        content = buffer.getvalue()
    path.write_bytes(content)
    if rng.random() < 0.3:
        path.with_suffix(rng.choice([".pt", ".pkl", ".pth", ".bin"])).write_bytes(content)


def links_and_pipes(folder: Path, rng: random.Random) -> None:
    outside = folder.parents[1] / "outside"
    names = [
        "config.json",
        "metrics.jsonl",
        "weights.safetensors",
        "checkpoints",
        "resume",
        "inspection",
        "resume/.lock",
    ]
    names += [".weights.safetensors.partial", "resume/.step-6.safetensors.partial", "checkpoints/step-6.safetensors"]
    path = folder / rng.choice(names)
    if not path.parent.is_dir():
        return
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    targets = [outside / "run" / path.name, outside / "secret.txt", outside, outside / "nowhere", Path("/dev/zero")]
    targets += [Path(path.name), Path("config.json"), Path(".."), Path("../../outside/secret.txt")]
    match rng.randrange(6):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            here = Path.cwd()
            os.chdir(path.parent)  # the path of a socket is short
            socket.socket(socket.AF_UNIX).bind(path.name)
            os.chdir(here)
        case _:
            path.symlink_to(rng.choice(targets))


def names_of_files(folder: Path, rng: random.Random) -> None:
    path = rng.choice([p for p in files_in(folder) if p.parent != folder])
    names = [
        "step-²",
        "step-٣",
        "step--1",
        "step-",
        "step-" + "9" * 200,
        "step-1\n",
        "step-0x1",
        "step-007",
        "step-6.5",
    ]
    path.rename(path.with_name(rng.choice(names) + ".safetensors"))


def a_sparse_file(folder: Path, rng: random.Random) -> None:
    os.truncate(rng.choice(files_in(folder)), 10**12)


WAYS: dict[Callable[[Path, random.Random], None], int] = {
    a_value_of_the_config: 30,
    bytes_of_any_file: 20,
    tensors_with_a_true_checksum: 15,
    a_header: 12,
    links_and_pipes: 8,
    a_pickle: 5,
    lines_of_the_log: 5,
    the_text_of_the_config: 3,
    names_of_files: 1,
    a_sparse_file: 1,
}


def fuzz(place: Path, seeds: range) -> None:
    outside = snapshot(place / "outside")
    for seed in seeds:
        rng = random.Random(seed)
        original = rng.choice(["finished", "killed", "killed"])
        hostile = harmless(rng.choice(HOSTILE[:7])).replace("/", "") if rng.random() < 0.02 else f"case-{seed}"
        folder = place / "runs" / hostile
        shutil.copytree(place / "originals" / original, folder)
        way = rng.choices(list(WAYS), list(WAYS.values()))[0]
        way(folder, rng)
        started = time.perf_counter()
        try:
            open_it(folder, on_command_line=seed % 10 == 0)
        except BaseException as error:
            raise AssertionError(f"case {seed}: {way.__name__} of the {original} run, left in {folder}") from error
        took = time.perf_counter() - started
        assert took < 10, f"case {seed}: {way.__name__} of the {original} run took {took:.0f} s"
        shutil.rmtree(folder)
        assert not (place / "outside" / "canary").exists(), f"case {seed}: a pickle was opened"
        assert seed % 20 or snapshot(place / "outside") == outside, f"one of the 20 cases up to {seed} got outside"
    assert snapshot(place / "outside") == outside and not list((place / "runs").iterdir())


FEW, MANY = range(250), range(250, 1500)  # and 100 and 400 configs: 2,000 cases together


def test_250_hostile_run_folders(place: Path) -> None:
    fuzz(place, FEW)


@pytest.mark.slow
def test_1250_more_hostile_run_folders(place: Path) -> None:
    fuzz(place, MANY)


WORDS = st.sampled_from(HOSTILE) | st.text(max_size=20)
ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.sampled_from(NUMBERS)
JSON = st.recursive(ATOMS, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=6)


def _configs(place: Path, data: st.DataObject) -> None:
    config = json.loads((place / "originals" / "finished" / "config.json").read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(list(places(config)) or [(config, "x")]))
        container[key] = data.draw(JSON)
        if isinstance(container, dict) and data.draw(st.booleans()):
            container[data.draw(WORDS)] = data.draw(JSON)
    folder = place / "config"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "resume").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    run = answers(lambda: load_run(folder))
    if run is not None:
        answers(run.model)


FUZZ = settings(derandomize=True, database=None, deadline=10_000, suppress_health_check=list(HealthCheck))


@settings(FUZZ, max_examples=100)
@given(data=st.data())
def test_100_hostile_configs(place: Path, data: st.DataObject) -> None:
    _configs(place, data)


@pytest.mark.slow
@settings(FUZZ, max_examples=400)
@given(data=st.data())
def test_400_hostile_configs(place: Path, data: st.DataObject) -> None:
    _configs(place, data)


HUGE: dict[str, Any] = {
    "d_model": {"model": {"d_model": 10**9}},
    "a d_model that could be": {"model": {"d_model": 20_000}},
    "d_mlp": {"model": {"d_mlp": 2**31}},
    "layers": {"model": {"n_layers": 10**9}},
    "as many layers as there can be": {"model": {"n_layers": 1024, "attention": "chacal"}},
    "context": {"model": {"n_ctx": 10**12}},
    "a context that could be": {"model": {"n_ctx": 2**31}},
    "heads": {"model": {"heads": {f"h{i}": 2**31 for i in range(1000)}}},
    "vocabulary": {"task": {"n": 10**15}},
    "symbols": {"task": {"name": "sorting", "q": 10**15}, "model": {"d_vocab": 10**15 + 2}},
    "lengths": {"task": {"name": "increment", "max_length": 10**15}, "model": {"d_vocab": 13, "n_ctx": 10**12}},
    "digits": {"task": {"name": "multiplication", "digits": 10**6}, "model": {"d_vocab": 19}},
    "operations": {"task": {"name": "boxes", "max_operations": 10**15}},
    "projection": {"objectives": {"seq_vcr": {"projection": 10**12}}},
}
HUGE_IN_TRAINING: dict[str, Any] = {
    "batch": {"batch_size": 10**12},
    "evaluation": {"eval_size": 10**12},
    "training set": {"train_size": 2**53},
    "truth": {"eval_size": 512, "task": {"n": 2**16, "k": 1}, "model": {"d_vocab": 2**16, "n_ctx": 2**16}},
}
MEASURE = """
import json, resource, sys, time
import torch, workbench
open_it = workbench.resume if sys.argv[1] == "resume" else lambda folder: workbench.load_run(folder).model()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before, found = peak(), {}
for folder in sys.argv[2:]:
    start, said = time.perf_counter(), ""
    try:
        open_it(folder)
    except ValueError as error:
        said = str(error)
    found[folder] = [said, time.perf_counter() - start, peak() - before]
print(json.dumps(found))
"""


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return base | {
        k: _merged(base[k], v) if k in ("task", "model") and "name" not in v else v for k, v in changes.items()
    }


@pytest.mark.parametrize(
    ("original", "how", "huge"),
    [("finished", "open", HUGE), ("killed", "open", HUGE), ("killed", "resume", HUGE | HUGE_IN_TRAINING)],
)
def test_sizes_are_refused_before_memory_is_taken(
    original: str, how: str, huge: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    base = json.loads((place / "originals" / original / "config.json").read_text())
    for name, changes in huge.items():
        shutil.copytree(place / "originals" / original, tmp_path / name)
        config = _merged(base, changes)
        if "task" in changes and "model" not in changes:
            config["model"] = {k: v for k, v in config["model"].items() if k not in ("d_vocab", "n_ctx")}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    folders = [str(tmp_path / name) for name in huge]
    command = [sys.executable, "-c", MEASURE, how, *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    for folder, (said, seconds, megabytes) in json.loads(done.stdout).items():
        assert said and len(said) < 1000 and "\n" not in said, folder
        assert seconds < 5 and megabytes < 100, (folder, said, seconds, megabytes)


def test_a_run_without_states_takes_no_more_memory_than_there_is(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "originals" / "killed", tmp_path / "run")
    for state in (tmp_path / "run" / "resume").glob("step-*"):
        state.unlink()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["model"] |= {"d_model": 10**6, "d_mlp": 10**6}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"training this config needs at least .* GB of memory; this machine has"):
        workbench.resume(tmp_path / "run", progress=False)
    with pytest.raises(ValueError, match=r"a model of [\d,]+ parameters needs at least"):
        Decoder(load_run(tmp_path / "run").config.model)


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"tied": True, "positions": "none"},
        {"norm": "none", "heads": {"a": 3, "b": 9}},
        {"d_head": 5, "positions": "sinusoidal"},
    ],
)
def test_parameters_are_counted_without_making_them(attention: str, shape: dict[str, Any]) -> None:
    config = DecoderConfig(
        n_layers=3, d_model=8, n_heads=2, d_vocab=11, n_ctx=13, unembed_bias=True, attention=attention, **shape
    )
    made = sum(parameter.numel() for parameter in Decoder(config).parameters())
    added = sum(parameter.numel() for parameter in config.attention_layer(0).parameters())  # by the variant, as β is
    assert config.n_parameters == made - 3 * added and added < 10


class TestNames:
    HOSTILE = "<img src=x onerror=alert(1)> [no] [x](http:evil) \x1b[2J\x9b31m\u202e"

    @pytest.fixture
    def hostile(self, place: Path, tmp_path: Path) -> Path:
        folder = tmp_path / self.HOSTILE
        shutil.copytree(place / "originals" / "finished", folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "preset": f"</pre></script>{self.HOSTILE}"}))
        return folder

    def test_a_report_shows_names_and_obeys_none(self, hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["inspect", str(hostile), "--n", "4"]) == 0
        said = "".join(capsys.readouterr())
        assert "\x1b" not in said and "\u202e" not in said and "onerror" in said and "[no]" in said
        page = (hostile / "inspection" / "report.html").read_text(encoding="utf-8")
        assert "<img src=x" not in page and "</pre></script>" not in page and "\x1b" not in page
        assert "&lt;img src=x" in page and "&lt;/pre&gt;&lt;/script&gt;" in page

    def test_listing_and_resuming_print_only_what_is_printable(
        self, hostile: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.copytree(hostile, hostile.with_name("two\nlines"))
        (hostile.with_name("two\nlines") / "config.json").write_text("{")
        assert main(["runs", "--root", str(hostile.parent)]) == 0
        assert main(["resume", str(hostile)]) == 0
        assert main(["resume", str(hostile.with_name("two\nlines"))]) == 2
        for text in capsys.readouterr():
            assert text and all(line.isprintable() for line in text.split("\n"))

    def test_a_state_that_is_damaged_is_named_as_it_is(
        self, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "[no] [red]run"
        shutil.copytree(place / "originals" / "killed", folder)
        (folder / "resume" / "step-4.safetensors").write_bytes(b"x")
        assert main(["resume", str(folder)]) == 0
        assert "[no] [red]run" in "".join(capsys.readouterr().err.split("\n"))

    def test_long_values_are_not_echoed_whole(self, tmp_path: Path) -> None:
        huge = "A" * 10**7
        for wrong in (
            {"device": huge},
            {"task": {"name": huge}},
            {huge: 1},
            {"model": {"attention": huge}},
            {"seed": huge},
        ):
            with pytest.raises(ValueError, match="AAA") as caught:
                workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **wrong)
            assert len(str(caught.value)) < 1000 and "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()

    def test_brief_keeps_the_beginning_and_the_end(self) -> None:
        assert brief("one\n  line \x1b") == "one line \\x1b"
        assert brief("a" * 5000 + "z").startswith("aaa") and brief("a" * 5000 + "z").endswith("z")
        assert len(brief("\x1b" * 10**6)) <= 800 and brief("as it is") == "as it is"


class TestNothingLeadsOutside:
    def test_links_in_a_root_are_not_followed_out_of_it(self, place: Path, tmp_path: Path) -> None:
        root = tmp_path / "runs"
        shutil.copytree(place / "originals" / "finished", root / "own")
        (root / "out").symlink_to(place / "outside" / "run")
        (root / "again").symlink_to(root / "own")
        found, problems = scan_runs(root)
        assert [run.path.name for run in found] == ["again", "own"] and len(scan_runs(root)[0]) == 2
        assert len(problems) == 1 and "out is a link that leads out of" in problems[0]
        assert load_run(root / "out").finished  # the user's own choice

    @pytest.mark.parametrize("path", ["../outside/secret.txt", "/etc/passwd", "/dev/zero", "~", "run/../../x"])
    def test_a_config_names_no_file_elsewhere(self, path: str, place: Path, tmp_path: Path) -> None:
        shutil.copytree(place / "originals" / "finished", tmp_path / "runs" / "run")
        config = json.loads((tmp_path / "runs" / "run" / "config.json").read_text())
        for task in ({"path": path}, {"path": str(tmp_path / "runs" / "own.txt"), "tokenizer": path}):
            config["task"] = {"name": "text", **task}
            (tmp_path / "runs" / "run" / "config.json").write_text(json.dumps(config))
            with pytest.raises(ValueError, match=r"text reads .*, which is not in .*; allow its folder with WORKBENCH"):
                load_run(tmp_path / "runs" / "run")

    @pytest.mark.parametrize("setting", ["path", "tokenizer"])
    def test_nor_does_its_curriculum(self, setting: str, place: Path, tmp_path: Path) -> None:
        shutil.copytree(place / "originals" / "finished", tmp_path / "runs" / "run")
        config = json.loads((tmp_path / "runs" / "run" / "config.json").read_text())
        config |= {"task": {"name": "text", "path": "shakespeare"}, "curriculum": [{setting: "/etc/passwd"}]}
        (tmp_path / "runs" / "run" / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=f"none of the files that its task reads: leave {setting} out"):
            load_run(tmp_path / "runs" / "run")

    def test_texts_are_read_beside_the_run_or_where_the_user_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = tmp_path / "texts" / "mine.txt"
        text.parent.mkdir()
        text.write_text(" ".join(map(str, range(2000))))
        task = {"name": "text", "path": str(text), "block": 16}
        changes = {**TINY, "task": task, "objectives": {"next_token": {}}}
        with pytest.raises(ValueError, match=r"text reads .*mine\.txt, which is not in"):
            workbench.train("chain-standard", out=tmp_path / "runs" / "run", progress=False, **changes)
        assert not (tmp_path / "runs").exists()
        workbench.train("chain-standard", out=text.parent / "run", progress=False, **changes)
        monkeypatch.setenv(TEXTS, os.pathsep.join(["/nowhere", str(text.parent)]))
        workbench.train("chain-standard", out=tmp_path / "runs" / "run", progress=False, **changes)
        (tmp_path / "runs" / "link.txt").symlink_to("/etc/passwd")
        config = json.loads((tmp_path / "runs" / "run" / "config.json").read_text())
        config["task"]["path"] = str(tmp_path / "runs" / "link.txt")
        (tmp_path / "runs" / "run" / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match="which is not in"):
            load_run(tmp_path / "runs" / "run")

    def test_a_saved_data_set_reads_its_own_files_alone(self, tmp_path: Path) -> None:
        import datasets

        for name in ("secret", "set"):
            datasets.Dataset.from_dict({"text": [f"a {name} text"]}).save_to_disk(tmp_path / name)
        state = json.loads((tmp_path / "set" / "state.json").read_text())
        part = state["_data_files"][0]["filename"]
        state["_data_files"][0]["filename"] = f"../secret/{part}"
        (tmp_path / "set" / "state.json").write_text(json.dumps(state))
        with pytest.raises(ValueError, match="its parts are not in its folder"):
            workbench.tasks.make("text", path=str(tmp_path / "set"))


FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "torch.load",
    "yaml.load",
    "importlib.import_module",
    "import_module",
}
FORBIDDEN |= {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
# The package's own lazy names: which module is looked up in a table that is written there. The code of a panel: the
# modules of the functions that the panel itself calls, which are imported already. The dicts and base classes of parts,
# which are named in a table of the package.
ALLOWED = {
    ("workbench/__init__.py", "import_module"),
    ("app/panels/code.py", "import_module"),
    ("workbench/util/plugins.py", "import_module"),
}


@pytest.mark.parametrize("folder", ["workbench", "app", "probes"])
def test_no_source_unpickles_or_runs_what_it_reads(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            used: set[str] = set()
            if isinstance(node, ast.Call):
                used = {ast.unparse(node.func)}
            elif isinstance(node, ast.Import):
                used = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                used = {(node.module or "").split(".")[0]}
            found = {(str(path.relative_to(ROOT)), name) for name in used & FORBIDDEN}
            assert found <= ALLOWED, found
