"""The papers' own configurations: they parse, have the papers' sizes, train, and are told apart from the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from workbench.cli import main
from workbench.models import Decoder
from workbench.training import PAPER_PRESETS, PRESETS, SECONDS, preset_config
from workbench.training.sweeps.plan import read_plan
from workbench.util.seeds import generator

NARROW = {"d_model": 48, "d_mlp": 16}  # 48 is a multiple of every number of heads
KINDS = ("vanilla", "pause", "seqvcr", "seqvcr-pause", "cot")


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_every_one_is_a_config_of_its_own(name: str) -> None:
    config = preset_config(name, {})
    assert config.preset == name and name.startswith("paper/")
    rest = {other for other in PAPER_PRESETS if other != name and PAPER_PRESETS[other] == PAPER_PRESETS[name]}
    assert not rest, "two names for one config"
    dropout = preset_config(name, {"model": {"dropout": 0.2}})
    assert dropout.model.dropout == 0.2 and dropout.steps == config.steps


def test_every_task_of_seq_vcr_has_its_five_configurations_and_names_say_what_differs() -> None:
    tasks = ["multiply-4", "multiply-5", *(f"arithmetic-{n}" for n in (4, 5, 6)), *(f"lis-{n}" for n in (50, 80, 100))]
    assert {f"paper/{task}-{kind}" for task in tasks for kind in KINDS} < set(PAPER_PRESETS)
    for name in PAPER_PRESETS:
        config = preset_config(name, {})
        assert ("seqvcr" in name) == ("seq_vcr" in config.objectives)
        assert ("pause" in name) == (config.task.get("mode") == "pause")
        assert ("cot" in name.split("-")) == (config.task.get("mode") == "chain_of_thought")
        assert ("tempered" in name) == (config.model.attention[-1]["variant"] == "tempered")
        assert ("chacal" in name) == (config.model.attention[-1]["variant"] == "chacal")


@pytest.mark.parametrize(("n_layers", "millions"), [(1, 3.3), (2, 6.4), (3, 9.6), (4, 12.7), (5, 15.9)])
def test_chains_have_the_sizes_of_table_1(n_layers: int, millions: float) -> None:
    config = preset_config("paper/chain-standard", {"model": {"n_layers": n_layers}})
    assert round(config.model.n_parameters / 1e6, 1) == millions
    if n_layers == 1:
        for name in ("paper/chain-standard", "paper/chain-chacal"):
            model = Decoder(preset_config(name, {}).model, generator(0))
            assert sum(p.numel() for p in model.parameters()) == config.model.n_parameters


def test_steps_are_the_papers_epochs() -> None:
    """Seq-VCR, §4.2 and Table 3: 40 epochs of 808,000 in batches of 32; 100 epochs of a million in batches of 128."""
    seen = {(preset_config(name, {}).steps, preset_config(name, {}).batch_size) for name in PAPER_PRESETS}
    assert {(1_010_000, 32), (781_250, 128), (24_000, 128), (25_000, 256), (100_000, 1024)} == seen


def test_weights_and_place_of_seq_vcr_are_those_of_its_paper() -> None:
    """§3.4: logits, or of GPT-2 a projection to 2048 of the last residual; the small presets have the same weights."""
    weights: dict[str, set[tuple[float, float]]] = {}
    for name in (*PRESETS, *PAPER_PRESETS):
        config = preset_config(name, {})
        if "seq_vcr" in config.objectives:
            settings = config.objectives["seq_vcr"]
            needs = config.make_objectives(config.make_task())["seq_vcr"].needs
            of_task = weights.setdefault(config.task["name"], set())
            of_task.add((settings["variance_weight"], settings["covariance_weight"]))
            gpt2 = config.model.n_layers == 12
            assert settings["positions"] == "real" and settings["projection"] == (2048 if gpt2 else None)
            assert needs == (("blocks.11.hook_resid_post",) if gpt2 else ())
    assert weights == {"multiplication": {(1.0, 0.004)}, "arithmetic": {(0.1, 0.5)}, "lis": {(0.1, 0.5)}}


def trains_a_step(name: str, out: Path) -> None:
    short = {"steps": 1, "batch_size": 4, "eval_size": 4, "model": NARROW}
    run = workbench.train(name, out=out, progress=False, **short)
    metrics = run.metrics()
    assert run.step() == 1 and metrics["loss"].notna().all() and metrics["accuracy"].notna().any()


@pytest.mark.parametrize(
    "name", ["paper/chain-chacal", "paper/sort-hints-tempered", "paper/multiply-4-seqvcr-pause", "paper/lis-50-seqvcr"]
)
def test_one_of_each_paper_takes_a_step_when_it_is_narrow(name: str, tmp_path: Path) -> None:
    trains_a_step(name, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_every_one_takes_a_step_when_it_is_narrow(name: str, tmp_path: Path) -> None:
    trains_a_step(name, tmp_path / "run")


def test_they_are_apart_from_the_presets_that_are_over_soon(capsys: pytest.CaptureFixture[str]) -> None:
    assert not {*PAPER_PRESETS} & {*PRESETS, *SECONDS}
    assert main(["list", "presets"]) == 0
    soon, words, long = capsys.readouterr().out.strip().split("\n\n")
    assert [line.split()[0] for line in soon.splitlines()] == list(PRESETS)
    assert [line.split()[0] for line in long.splitlines()] == list(PAPER_PRESETS)
    assert "hours on a GPU" in words


def test_a_name_that_does_not_exist_is_answered_by_its_own_kind() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'paper/chain-chacal'\?\); there is: paper/"):
        preset_config("paper/chain-chacl", {})
    with pytest.raises(ValueError, match=r"did you mean 'chain-chacal'\?\); there is: addition-grok") as caught:
        preset_config("chain-chacl", {})
    assert "paper/" not in str(caught.value)


def test_a_sweep_of_one_makes_folders_under_its_name() -> None:
    plan = read_plan({"preset": "paper/chain-chacal", "grid": {"seed": [0, 1]}})
    assert [run.name for run in plan.runs] == ["paper-chain-chacal-seed=0", "paper-chain-chacal-seed=1"]
