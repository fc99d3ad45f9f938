"""`workbench heads`: which head does what, beside re-initialised models, and what is lost without it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import workbench
from tests.models.tiny_models import tiny
from workbench.capture import Capture
from workbench.cli import main
from workbench.inspection import inspect_run
from workbench.instruments.attention import head_roles
from workbench.report.heads import Heads, RoleHead
from workbench.runs import Run, load_run
from workbench.runs.compiled import compile_run
from workbench.tasks import make


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("run") / "sorter", {"q": 6, "max_length": 6})


@pytest.fixture(scope="module")
def ranked(sorter: Run) -> Heads:
    return workbench.heads(sorter, n=32)


def of(ranked: Heads, role: str) -> list[RoleHead]:
    return [each for each in ranked.strongest if each.role == role]


def test_the_head_that_finds_the_minimum_is_named_with_what_is_lost_where_it_is_asked(ranked: Heads) -> None:
    first, *_ = of(ranked, "reads minimum")
    assert (first.layer, first.head) == (0, 1) and float(first.share.values) > 0.99 and first.is_more
    assert float(first.lost_there.values) > 0.3 > 2 * float(first.lost.values), "⊥ is one of many positions"
    assert [(each.layer, each.head) for each in of(ranked, "reads identity")] == [(0, 1), (1, 0)]
    assert "reads minimum" in ranked.says and "0.1" in ranked.says and ranked.right == 1
    assert " others, of which 100% are right" in ranked.says


def test_a_role_that_no_head_has_is_told_as_absent(ranked: Heads) -> None:
    assert not any(each.is_more for each in of(ranked, "previous token"))
    absent = next(
        line
        for line in ranked.says.splitlines()
        if line.startswith("In these roles no head is clearly beyond its controls")
    )
    assert "previous token" in absent and "reads minimum" not in absent


def test_its_shares_are_those_of_the_instrument(ranked: Heads, sorter: Run) -> None:
    measured = inspect_run(sorter, n=32, seed=0, only=["head_roles"], conditions=[{}])["head_roles"].mean
    for role in head_roles.ROLES:
        assert ranked.roles.mean.select(role=role).values == pytest.approx(measured.select(role=role).values)
    table = ranked.table()
    assert {"role", "layer", "head", "value", "low", "high", "untrained"} <= set(table)


def test_a_label_s_keys_hold_its_token_and_lie_no_later() -> None:
    task = make("sorting", q=6, max_length=6)
    batch = task.sample(16, workbench.generator(0))
    n_pos = batch.tokens.shape[1]
    uniform = torch.ones(16, 1, n_pos, n_pos).tril() / torch.arange(1, n_pos + 1)[:, None]
    rows = torch.zeros(len(task.vocabulary), 4)
    seen = Capture.of({"blocks.0.attn.hook_pattern": uniform}, batch.tokens, encoder=rows, decoder=rows, task=task)
    keys = head_roles.role_keys(seen, by_label=True)["reads minimum"]
    for row, query, key in keys.nonzero().tolist():  # the query is ⊥, before which the symbols stand
        assert key < query and batch.tokens[row, key] == batch.tokens[row, :query].min()
    assert keys.any(-1).sum(-1).tolist() == [1] * 16
    shares = head_roles.measure(seen, by_label=True)
    at = int(keys[0].any(-1).nonzero())
    share = float(shares.select(role="reads minimum", layer=0, head=0).values[0])
    assert share == pytest.approx(keys[0, at].sum() / (at + 1))
    assert "reads minimum" not in head_roles.measure(seen).coords["role"]


def test_a_model_of_hugging_face_is_given_tokens_that_come_twice(tmp_path: Path) -> None:
    tiny("gpt2").save_pretrained(tmp_path / "gpt2")
    ranked = workbench.heads(str(tmp_path / "gpt2"), n=8)
    assert ranked.n == 8 and not any(role.startswith("reads") for role in ranked.roles.mean.coords["role"])
    induction = of(ranked, "induction")
    assert len(induction) == 2 and not np.isnan(float(induction[0].share.values))
    assert " of these, of which" in ranked.says and "others, of" not in ranked.says, "a text has no others to remove on"
    assert workbench.heads(str(tmp_path / "gpt2"), n=8).json() == ranked.json()


def test_the_command_line_says_it_and_writes_it(
    sorter: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "heads"
    assert main(["heads", str(sorter.path), "--n", "16", "--top", "1", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.count("reads minimum") == 1 and "uninformed, at most" in said
    assert len(pd.read_csv(out / "head_roles.csv")) == 4 * (len(head_roles.ROLES) + 3)
    assert (out / "heads.html").is_file()
    assert main(["heads", str(sorter.path), "--n", "16", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "sorter" and {"role", "layer", "head", "share", "lost"} <= set(told["strongest"][0])
    for wrong, reason in (
        (["--n", "1"], "n is 2 or more"),
        (["--top", "0"], "top 1 or more"),
        (["--text", "some.txt"], "leave the text out"),
        (["--out", str(out)], "heads"),
    ):
        assert main(["heads", str(sorter.path), *wrong]) == 2
        assert reason in capsys.readouterr().err
    assert main(["heads", "nowhere/at-all"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_is_loaded_is_as_good_as_its_folder(sorter: Run) -> None:
    assert workbench.heads(load_run(sorter.path), n=8).json() == workbench.heads(sorter.path, n=8).json()
