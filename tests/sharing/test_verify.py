"""A stranger's config, log and weights: asked for too much, of the wrong kind, or not fitting each other."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.models import Decoder
from workbench.models.attention import ATTENTION
from workbench.runs import Run, create, load_run, parse_config, save_weights
from workbench.sharing import export, unpack
from workbench.tasks import TASKS
from workbench.util.files import load_tensors, save_tensors
from workbench.util.settings import merge


@pytest.fixture
def theirs(trained: Run, tmp_path: Path) -> Path:
    shutil.copytree(trained.path, tmp_path / "theirs")
    return tmp_path / "theirs"


def refused(theirs: Path, match: str) -> None:
    """In one printable line, quickly, with nothing left behind."""
    started = time.perf_counter()
    with pytest.raises(ValueError, match=match) as caught:
        unpack(theirs, theirs.parent / "run")
    assert time.perf_counter() - started < 2
    assert str(caught.value).startswith(f"{theirs} is refused: ") and str(caught.value).isprintable()
    assert len(str(caught.value)) < 700 and [path.name for path in theirs.parent.iterdir()] == ["theirs"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"task": {"n": 10**12, "k": 1}}, "n: input should be less than or equal to 65536, not 1000000000000"),
        ({"task": {"n": 1e12, "k": 1}}, "less than or equal to 65536"),
        ({"task": {"n": "1000000000000", "k": 1}}, "less than or equal to 65536"),
        ({"task": {"n": 10**400}}, "an integer of 401 digits"),
        ({"task": {"name": "multiplication", "digits": 10**6}}, "digits: input should be less than or equal to 100"),
        ({"model": {"n_layers": 10**6}}, "less than or equal to 1024, not 1000000"),
        ({"model": {"n_layers": 10**6, "attention": "chacal"}}, "less than or equal to 1024"),
        (
            {"model": {"heads": {f"head_{number}": 2 for number in range(1001)}}},
            "too small for 37,730 parameters",
        ),
        ({"model": {"d_mlp": 10**6}}, "it is too small for"),
        ({"model": {"d_model": 10**6, "d_mlp": 10**6}}, "it is too small for"),
        ({"model": {"d_head": 10**6}}, "it is too small for"),
        ({"model": {"heads": {"extra": 10**6}}}, "it is too small for"),
        ({"model": {"heads": {"__class__": 3}}}, "cannot name an extra head"),
        ({"model": {"d_model": "large"}}, "unable to parse string as an integer"),
        ({"model": {"attention": "os.system"}}, "unknown attention variant 'os.system'"),
        ({"model": {"attention": [{"variant": ["x"]}]}}, "is refused"),
        (
            {"objectives": {"seq_vcr": {"projection": 10**6, "layer": -1}}, "model": {"d_model": 100}},
            "too small for",
        ),
        ({"objectives": {"os.system": {"command": "true"}}}, "unknown objective 'os.system'"),
        ({"objectives": {"seq_vcr": {"model": 1}}}, "is refused"),
        ({"objectives": 7}, "is refused"),
        ({"task": {"name": "os"}}, "unknown task 'os'"),
        ({"task": {"name": ["x"]}}, "is refused"),
        ({"task": {"name": "text", "path": "/etc/passwd"}}, "learned from files of one machine"),
        ({"task": 7}, "task: input should be a valid dictionary, not 7"),
        ({"task": {"\x1b[2Jevil\nname": 1}}, "unknown field"),
        ({"format": 2}, "is of format 2"),
        ({"callback": "os.system"}, "unknown field 'callback'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_config_cannot_take_memory_or_name_code(changes: Mapping[str, Any], match: str, theirs: Path) -> None:
    config = json.loads((theirs / "config.json").read_text())
    if isinstance(changes.get("task"), Mapping) and "name" in changes["task"]:
        config["task"] = {}
    (theirs / "config.json").write_text(json.dumps(merge(config, changes)))
    refused(theirs, match)


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{", "\0", '{"task": {}}', "[" * 10**5, "9" * 5000, '"\\ud800"'], ids=lambda c: c[:9]
)
def test_a_config_that_is_none(content: str, theirs: Path) -> None:
    (theirs / "config.json").write_text(content)
    refused(theirs, "is refused")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("[1]\n", "line 1 is not a row"),
        ("{\n{}\n", "line 1 is not JSON"),
        ('{"step": "1"}\n', "is not a row of figures"),
        ('{"step": 1, "loss": [1]}\n', "is not a row of figures"),
        ('{"step": 1, "loss": "<script>"}\n', "is not a row of figures"),
        ('{"loss": 1}\n', "is not a row of figures"),
        ('{"step": 1.5}\n', "is not a row of figures"),
        ('{"step": true}\n', "is not a row of figures"),
        ('{"step": 1, "accuracy": true}\n', "is not a row of figures"),
        ('{"step": 1, "loss": false}\n', "is not a row of figures"),
        ('{"event": "finished", "seconds": "<b>"}\n', "is not a row of figures"),
        ('{"event": "target", "accuracy": true}\n', "is not a row of figures"),
        ('{"step": 1, "accuracy": 7.5}\n', "line 1: accuracy is 7.5, not a share from 0 to 1"),
        ('{"step": 1}\n{"step": 2, "whole_answer/length=3": 1e999}\n', "line 2: whole_answer/length=3 is inf, not"),
        ('{"step": 1, "exact_match": -0.5}\n', "exact_match is -0.5, not a share"),
        ('{"event": "after", "accuracy": 2}\n', "accuracy is 2, not a share"),
        ("[" * 10**5 + "\n", "is refused"),
        ("\n" * 1_000_001, "more than 1,000,000 lines"),
        ("".join(f'{{"step": {i}, "loss{i}": 1}}\n' for i in range(10_000)), "more than 20,000,000 cells"),
    ],
    ids=lambda value: value[:20],
)
def test_a_log_is_rows_of_numbers(content: str, match: str, theirs: Path) -> None:
    (theirs / "metrics.jsonl").write_text(content)
    refused(theirs, match)


def test_weights_are_those_of_the_config(theirs: Path) -> None:
    path = theirs / "weights.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_tensors(path)[0].items()}
    metadata = {"step": "20"}
    name = "layers.0.attn.q.weight"
    for wrong in (tensors[name][:1].clone(), tensors[name].double(), tensors[name].to(torch.int32)):
        save_tensors(path, {**tensors, name: wrong}, metadata)
        refused(theirs, f"{name} should be .* and is ")
    save_tensors(path, {**tensors, "\x1b[2J\n": torch.zeros(1)}, metadata)
    refused(theirs, r"\\x1b\[2J should be nothing")
    save_tensors(path, {key: tensor for key, tensor in tensors.items() if key != name}, metadata)
    refused(theirs, f"{name} should be .* and is nothing")
    for step in ("", "x", "-1", "9" * 5000):
        save_tensors(path, tensors, {"step": step})
        refused(theirs, "does not say its step")
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    refused(theirs, "weights.safetensors is truncated or corrupted")
    path.write_bytes(b"\2")
    refused(theirs, "weights.safetensors is truncated or corrupted")
    save_tensors(path, tensors, metadata)
    unpack(theirs, theirs.parent / "run")


def of_every_kind() -> list[dict[str, Any]]:
    """A config of every task and every attention variant, and those whose weights are laid out otherwise."""
    shape = {"n_layers": 2, "d_model": 8, "n_heads": 2}
    found: list[dict[str, Any]] = [{"task": {"name": name}, "model": shape} for name in TASKS if name != "text"]
    chain = {"name": "pointer_chain", "n": 8, "k": 2}
    found += [{"task": chain, "model": {**shape, "attention": name}} for name in ATTENTION]
    special = [{"tied": True}, {"positions": "none", "norm": "none"}, {"unembed_bias": True, "d_head": 3}]
    special += [{"positions": "sinusoidal", "activation": "gelu_tanh"}]
    found += [{"task": chain, "model": {**shape, **more}} for more in special]
    return [*found, {"task": {"name": "sorting", "hints": ["count", "successor"]}, "model": shape}]


@pytest.mark.parametrize("config", of_every_kind(), ids=lambda value: json.dumps(value)[:60])
def test_every_kind_of_run_can_be_shared(config: dict[str, Any], tmp_path: Path) -> None:
    path = create(tmp_path / "run", parse_config(config))
    made = load_run(path).config
    save_weights(Decoder(made.model), path / "weights.safetensors", 3, made)
    (path / "metrics.jsonl").write_text('{"step": 3, "accuracy": 0.5}\n')
    run = unpack(export(path, tmp_path / "run.zip"), tmp_path / "back")
    assert run.config == load_run(path).config and "**50.0%**" in (run.path / "README.md").read_text()


def test_a_checkpoint_is_of_the_step_in_its_name(theirs: Path) -> None:
    (theirs / "checkpoints" / "step-10.safetensors").rename(theirs / "checkpoints" / "step-11.safetensors")
    refused(theirs, "step-11.safetensors says that it was saved at step '10'")
