"""RankMe, LiDAR, DiME and InfoNCE of runs, beside re-initialised models and shuffled answers, in one batch's memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from workbench import figures
from workbench.inspection.geometry import SHUFFLED, geometry
from workbench.instruments import SETS
from workbench.runs import Run
from workbench.runs.compiled import compile_run


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("sorter") / "run", {"q": 6, "max_length": 6})


def test_a_model_that_sorts_tells_minima_apart_and_its_controls_do_not(sorter: Run) -> None:
    measured = geometry(sorter, n=400, seed=0, settings={"infonce": {"pairs": 4}, "dime": {"pairs": 4}})
    assert set(measured.measured) == set(SETS) and not measured.left_out
    last = "blocks.0.hook_resid_mid"  # the delimiter holds the minimum there (Theorem 5.1)
    infonce, dime = ({"own": measured[name], **measured.controls[name]} for name in ("infonce", "dime"))
    assert set(infonce) == {"own", "untrained", SHUFFLED}
    at = {name: float(m.select(layer=last).values) for name, m in infonce.items()}
    assert at["own"] < at["untrained"] and at["own"] < at[SHUFFLED]
    assert infonce[SHUFFLED].high is not None
    shared = {name: float(m.select(layer=last).values) for name, m in dime.items()}
    assert shared["own"] > shared[SHUFFLED] and abs(shared[SHUFFLED]) < 0.1
    assert set(measured.controls["rankme"]) == {"untrained"}, "no answers, so none to shuffle"


def test_it_is_the_same_twice_and_draws_like_other_figures_by_layer(sorter: Run) -> None:
    first, again = (geometry(sorter, n=200, seed=1, only=["lidar"]) for _ in range(2))
    assert first["lidar"].values.tolist() == again["lidar"].values.tolist()
    assert list(first.measured) == ["lidar"]
    (figure,) = figures.by_layer({"run": first["lidar"]}, {"run": first.controls["lidar"]})
    assert {trace.name for trace in figure.data} >= {"run"} and len(figure.data) == 3
    with pytest.raises(ValueError, match="unknown instrument of many sequences 'lida'"):
        geometry(sorter, n=20, seed=0, only=["lida"])


def test_a_model_that_went_astray_is_left_out_with_the_reason(sorter: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    model = sorter.model()
    model.token_embedding.weight.data.fill_(float("nan"))
    monkeypatch.setattr(type(sorter), "model", lambda run, step=None: model)
    measured = geometry(sorter, n=64, seed=0)
    assert not measured.measured and set(measured.left_out) == set(SETS)
    assert all("must be finite" in reason for reason in measured.left_out.values())


STREAMED = """
import resource, sys, torch, workbench
from workbench.inspection.geometry import geometry
from workbench.capture import Subject
from workbench.instruments import entropy, over_batches
torch.set_num_threads(1)
run, n = workbench.load_run(sys.argv[1]), int(sys.argv[2])
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def both(n):
    geometry(run, n=n, seed=0, settings={"infonce": {"pairs": 8}, "dime": {"pairs": 8}})
    model, task = run.model(), run.task()
    batches = (task.sample(64, workbench.generator(i), split="test") for i in range(n // 64))
    over_batches(entropy, model, Subject.of(model, task, run.name), batches)
both(256)
before = peak()
both(n)
print(peak() - before)
"""


@pytest.mark.slow
def test_twenty_thousand_sequences_of_four_layers_take_the_memory_of_a_batch(tmp_path: Path) -> None:
    """All vectors and Gram matrices would take gigabytes; one activation of all sequences alone takes 160 MB."""
    changes = {"steps": 0, "eval_size": 16, "model": {"n_layers": 4}, "task": {"n": 32, "k": 4}}
    run = workbench.train("chain-standard", out=tmp_path / "run", progress=False, **changes)
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, str(run.path), "20000"], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 64, "megabytes more than 256 sequences take"
