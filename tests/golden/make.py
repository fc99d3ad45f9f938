"""Makes the golden folders: runs, fine-tunings, studies and pins, each tiny, finished or stopped on the way.

They were made once, by the code whose behaviour they keep. Whoever makes them anew compares today's code with itself.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from streamlit.testing.v1 import AppTest
from transformers import GPT2Config, GPT2LMHeadModel

import workbench
from tests.app.conftest import APP
from tests.app.support import page
from workbench.app.evidence import collection
from workbench.cli import main
from workbench.runs.compiled import compile_run
from workbench.studies import find_study
from workbench.tasks.text import SHIPPED, Text
from workbench.training import train_seeds
from workbench.training.finetune import finetune
from workbench.training.sweeps.plan import read_plan
from workbench.util.progress import Interrupts

HERE = Path(__file__).parent
FOLDERS = ("runs", "studies")
PLUGIN = "given/parts.py"

SHAPE = {"n_layers": 1, "d_model": 16, "n_heads": 2}
SHARED: dict[str, Any] = {"model": SHAPE, "precision": "float64", "device": "cpu", "batch_size": 16, "eval_size": 32}
SHORT: dict[str, Any] = {**SHARED, "steps": 24, "log_every": 3, "eval_every": 8, "warmup": 4}
CHAIN = {"n": 8, "k": 2}
HALF = 13  # steps after which a run is stopped
SORT = {"q": 6, "min_length": 2, "max_length": 4, "test_max_length": 5}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("chain-chacal", {**SHORT, "task": CHAIN, "checkpoint_count": 4, "save_every": 10}),
    "hinted": (
        "sort-tempered",
        {
            **{**SHORT, "model": {**SHAPE, "dropout": 0.1}},
            "task": {**SORT, "hints": ["successor"]},
            "accumulate": 2,
            "train_size": 64,
        },
    ),
    "varied": (
        "multiply-seqvcr",
        {**SHORT, "task": {"digits": 1}, "objectives": {"seq_vcr": {"layer": -1, "projection": 12}}},
    ),
    "rounded": ("chain-standard", {**SHORT, "task": CHAIN, "precision": "float32"}),
}
"""Runs that are there twice, finished and stopped on the way: name -> preset and settings."""
LEARNED = {**SHARED, "task": {"n": 12, "k": 4}, "steps": 800, "batch_size": 64, "learning_rate": 1e-2}
TUNED: dict[str, Any] = {
    **{"steps": 12, "batch_size": 4, "length": 16, "learning_rate": 1e-3, "eval_size": 8, "log_every": 2},
    **{
        "model": "given/gpt2",
        "text": "given/text.txt",
        "attention": {"variant": "chacal", "gamma": 0.9},
        "layers": [1],
    },
    "gamma_warmup": 8,
}
HALF_TUNED = 7
INPUT = {"run": "learned", "how": "Own input", "input": "3 3 10 6 0 2 3 1 6 5 7 4"}


@contextmanager
def stopped_after(steps: int | None) -> Iterator[None]:
    """What is trained within this context is stopped after so many steps, as by Ctrl-C; None: not at all."""
    asked = count(1)
    requested = property(lambda self: steps is not None and next(asked) == steps, lambda self, value: None)
    with patch.object(Interrupts, "requested", requested):
        yield


def make_runs() -> None:
    """The runs, in runs/ of the current folder."""
    for name, (preset, settings) in RUNS.items():
        for out, stop in ((name, None), (f"{name}-half", HALF)):
            with stopped_after(stop):
                workbench.train(preset, out=Path("runs", out), progress=False, **settings)
    for out, stop in (("stack", None), ("stack-half", HALF)):
        with stopped_after(stop):
            train_seeds("chain-chacal", Path("runs", out), 2, progress=False, task=CHAIN, **SHORT)
    workbench.train("chain-chacal", out="runs/learned", progress=False, **LEARNED)
    workbench.load_plugins([PLUGIN])
    workbench.train("golden-backwards", out="runs/own-parts", progress=False, **{**SHORT, "steps": 60})
    compile_run("sorter", "runs/sorter", {"q": 5, "max_length": 4})
    compile_run("chaser", "runs/chaser", {"n": 8, "k": 2})


def make_finetunings() -> None:
    """A GPT-2 of two layers with fresh weights, whose tokens are bytes, and fine-tunings of it."""
    text = Text(path="shakespeare", block=64)
    Path("given/text.txt").write_text(SHIPPED["shakespeare"].read_text(encoding="utf-8")[:4_000], encoding="utf-8")
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "n_positions": 32,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    GPT2LMHeadModel(GPT2Config(vocab_size=len(text.vocabulary), **shape)).save_pretrained("given/gpt2")
    text.fast_tokenizer().save_pretrained("given/gpt2")
    for out, stop in (("tuned", None), ("tuned-half", HALF_TUNED)):
        with stopped_after(stop):
            finetune(TUNED, Path("tunings", out), progress=False)
        config = Path("tunings", out, "finetune.json")
        own = {name: TUNED[name] for name in ("model", "text")}  # instead of where they lie on this machine
        config.write_text(json.dumps(json.loads(config.read_text()) | own, indent=1) + "\n", encoding="utf-8")


def make_studies() -> None:
    """A study that has run, and the same stopped in its third of four runs."""
    command = ["study", "run", "given/tiny.toml", "--workers", "1", "--quiet"]
    assert main([*command, "--root", "studies/whole"]) == 0
    _, study = find_study("given/tiny.toml")
    first, second, third, _ = read_plan(study.plan("small", 2)).runs
    for planned, stop in ((first, None), (second, None), (third, HALF)):
        with stopped_after(stop):
            workbench.train(planned.config, Path("studies/half/tiny/small/runs", planned.name), progress=False)


def make_pins() -> None:
    """Pins of a drawing and of a chart, kept in the folder of the runs as the explorer keeps them."""
    given = ["main.py", "--root", "runs", "--start", "."]
    with patch.object(sys, "argv", given), patch.object(collection, "may_write", lambda: True):
        explorer = AppTest.from_file(str(APP), default_timeout=120)
        page(explorer, "residual", **INPUT)
        for button in ("residual-pin", "trajectory-pin"):
            explorer.button(key=button).click().run()
            assert not explorer.exception


def make() -> None:
    """Everything anew, in this folder."""
    for folder in (*FOLDERS, "tunings", "given/gpt2"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
    with chdir(HERE), patch.dict(os.environ):
        make_runs()
        make_finetunings()
        make_studies()
        make_pins()
    for lock in HERE.rglob("*.lock"):
        lock.unlink()
