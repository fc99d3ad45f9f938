"""A sweep on a Ray cluster outlives its nodes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import torch
from safetensors.torch import load

import workbench
from workbench.runs import load_run
from workbench.training.sweeps.cluster import _attempt_elsewhere, _to_bytes
from workbench.training.sweeps.jobs import RunJob
from workbench.training.sweeps.plan import read_plan
from workbench.training.training_run import TrainingRun

pytestmark = pytest.mark.alone

SETTINGS: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 450,  # long enough that one node is not through with all of them before the other has begun
    "save_every": 40,
    "warmup": 0,
}
TWELVE = {"preset": "chain-chacal", "settings": SETTINGS, "grid": {"seed": list(range(6)), "model.n_layers": [1, 2]}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a core each, on this machine."""
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_initial_delay_ms": 500, "health_check_failure_threshold": 3}
    small = {"num_cpus": 1, "object_store_memory": 80_000_000}
    made = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False, "_system_config": quick})
    made.add_node(**small)
    yield made
    made.shutdown()


def kill_in_the_middle_of_a_run(cluster: Any) -> None:
    """Kill the cluster's second node, once it trains, as a power cut would: all of its processes at once."""
    (node,) = cluster.worker_nodes
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    until = time.monotonic() + 60
    while not (training := [p for p in raylet.children() if "attempt_elsewhere" in " ".join(p.cmdline())]):
        assert time.monotonic() < until, "the node trained nothing"
        time.sleep(0.02)
    for process in training:
        process.kill()
    cluster.remove_node(node, allow_graceful=False)


def test_twelve_runs_complete_when_a_node_is_killed_and_are_not_done_again(cluster: Any, tmp_path: Path) -> None:
    def kill() -> None:
        while not list(tmp_path.glob("*/config.json")):
            time.sleep(0.02)
        kill_in_the_middle_of_a_run(cluster)

    killer = threading.Thread(target=kill)
    killer.start()
    frame = workbench.sweep(TWELVE, tmp_path, ray=cluster.address, progress=False)
    killer.join()
    assert len(cluster.list_all_nodes()) == 1 and len(frame) == 12 and set(frame["status"]) == {"finished"}
    assert frame["attempts"].sum() > 12, "the run that the node was at was made again"
    for row in frame.itertuples():
        assert load_run(tmp_path / row.run).metrics()["loss"].iloc[-1] == row.loss
    assert pd.read_parquet(tmp_path / "results.parquet")["attempts"].tolist() == frame["attempts"].tolist()

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != ".sweep.lock"}
    again = workbench.sweep(TWELVE, tmp_path, ray=cluster.address, progress=False)
    assert again["attempts"].tolist() == frame["attempts"].tolist()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != ".sweep.lock"} == before


def test_a_run_that_fails_comes_back_with_its_reason_and_what_there_is(cluster: Any, tmp_path: Path) -> None:
    fields = {**TWELVE, "grid": {"learning_rate": [1e30, 1e-3]}}
    frame = workbench.sweep(fields, tmp_path, ray=cluster.address, progress=False)
    assert frame["status"].tolist() == ["failed", "finished"] and frame["attempts"].tolist() == [1, 1]
    folder = tmp_path / frame["run"][0]
    assert f"saved in {folder}" in frame["error"][0] and not load_run(folder).finished


def test_a_node_goes_on_from_the_files_it_is_given(tmp_path: Path) -> None:
    run = read_plan({**TWELVE, "grid": {}}).runs[0]
    config = run.config.model_dump_json()
    whole, error = _attempt_elsewhere(RunJob, config, "home", {}, {})
    assert error is None and set(whole) == {"config.json", "metrics.jsonl", "weights.safetensors"}

    record = TrainingRun.record

    def stop(self: TrainingRun, *arguments: Any) -> None:
        record(self, *arguments)
        if self.learner.step == 100:
            raise OSError(28, "No space left on device", str(self.path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingRun, "record", stop)
        part, error = _attempt_elsewhere(RunJob, config, "home", {}, {})
    assert error is not None and "step 80 is kept, and `workbench resume home`" in error
    assert "resume/step-80.safetensors" in part
    again, error = _attempt_elsewhere(RunJob, config, "home", part, {})
    ended, alone = (load(files["weights.safetensors"]) for files in (again, whole))
    assert error is None and all(torch.equal(ended[name], alone[name]) for name in alone)


def test_nothing_of_a_run_that_has_no_state_is_sent(tmp_path: Path) -> None:
    (tmp_path / "resume").mkdir()
    (tmp_path / "config.json").write_text(read_plan(TWELVE).runs[0].config.model_dump_json())
    assert _to_bytes(tmp_path) == {} == _to_bytes(tmp_path / "none")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense"])
def test_no_cluster_at_an_address_is_one_line_soon_and_nothing_is_written(address: str, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match=f"there is no Ray cluster to be used at '{address}'"):
        workbench.sweep(TWELVE, tmp_path / "out", ray=address)
    assert time.monotonic() - started < 20 and not list(tmp_path.iterdir())


def test_without_ray_a_sweep_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'interp-workbench\[ray\]'"):
        workbench.sweep(TWELVE, tmp_path / "out", ray="auto")
