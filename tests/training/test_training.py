from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import workbench
from tests.models.toys import HalfSigmoidAttention
from workbench.cli import main
from workbench.inspection import inspect_run
from workbench.models.attention import ATTENTION
from workbench.runs import load_run, new_run, scan_runs
from workbench.runs.listing import table
from workbench.training import PRESETS, SECONDS, TrainingError, preset_config
from workbench.training.data import held_out, training_batches

TINY = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 6,
    "eval_every": 3,
    "log_every": 2,
}


def test_train_writes_a_run_folder_that_opens(tmp_path: Path) -> None:
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, checkpoint_every=3, **TINY)
    assert {p.name for p in run.path.iterdir()} == {
        "config.json",
        "metrics.jsonl",
        "weights.safetensors",
        "checkpoints",
    }
    assert run.step() == 6 and run.checkpoints() == [0, 3, 6]
    assert run.config.preset == "chain-chacal" and run.task().n_ctx == 8
    metrics = run.metrics()
    assert metrics["step"].tolist() == [1, 2, 3, 4, 6]
    assert metrics["accuracy"].notna().sum() == 2
    tokens = run.task().sample(3, workbench.generator(0)).tokens
    assert run.model()(tokens).shape == (3, 8, 8)
    assert not torch.equal(run.model(3)(tokens), run.model()(tokens))


def test_a_variant_whose_two_paths_differ_is_refused_before_it_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was trained, and refused when it was inspected."""
    monkeypatch.setitem(ATTENTION, "half_sigmoid", HalfSigmoidAttention)
    with pytest.raises(ValueError, match=r"'half_sigmoid' must agree, mix\(q, k, v\) and read.* differ by up to \d"):
        workbench.train(
            "chain-standard", tmp_path / "run", progress=False, **TINY | {"model": {"attention": "half_sigmoid"}}
        )
    assert not (tmp_path / "run").exists()


def test_the_slower_of_two_that_make_one_folder_is_told_that_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told to resume a run that was another's."""
    usual = new_run.write_atomically

    def slow(path: Path, content: bytes) -> None:
        usual(path, content)
        if not (tmp_path / "run").exists():
            monkeypatch.undo()
            workbench.train("chain-standard", out=tmp_path / "run", progress=False, **TINY)

    monkeypatch.setattr(new_run, "write_atomically", slow)
    assert main(["train", "chain-chacal", "--out", str(tmp_path / "run"), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"workbench: {tmp_path / 'run'} already exists, and nothing is overwritten")
    assert load_run(tmp_path / "run").config.preset == "chain-standard" and len(list(tmp_path.iterdir())) == 1


def test_same_command_gives_the_same_weights_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        workbench.train("chain-standard", out=tmp_path / name, progress=False, seed=seed, **TINY)
    first, again, other = (load_file(tmp_path / name / "weights.safetensors") for name in "abc")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["token_embedding.weight"], other["token_embedding.weight"])


def test_saved_weights_are_the_trained_ones_bit_for_bit(tmp_path: Path) -> None:
    run = workbench.train("multiply-seqvcr", out=tmp_path / "run", progress=False, steps=3, batch_size=4, eval_size=4)
    assert load_run(run.path).config == run.config
    model, again = run.model(), load_run(run.path).model()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_what_presets_take_is_what_the_benchmark_measured() -> None:
    table = Path(__file__).parents[1] / "benchmarks" / "README.md"
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \| \d+ \|", table.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: pytest.approx(int(seconds), rel=0.5) for name, seconds in rows} == SECONDS
    assert list(SECONDS) == list(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_trains_and_lowers_its_loss(preset: str, tmp_path: Path) -> None:
    run = workbench.train(preset, out=tmp_path / "run", progress=False, steps=15, log_every=1, eval_size=8, warmup=1)
    losses = run.metrics()["loss"]
    assert losses.iloc[-3:].mean() < losses.iloc[0]


@pytest.mark.parametrize(("preset", "pauses"), [("multiply-pause", 2), ("arithmetic-pause", 7), ("lis-pause", 4)])
def test_presets_pause_as_often_as_the_paper_and_score_the_answer_alone(preset: str, pauses: int) -> None:
    for name in (preset, preset.replace("pause", "seqvcr-pause")):
        config = preset_config(name, {})
        assert ("seq_vcr" in config.objectives) == ("seqvcr" in name)
        task = config.make_task()
        plain = preset_config(preset.replace("pause", "vanilla"), {}).make_task()
        paused, answered = (one.draw(20, workbench.generator(0)) for one in (task, plain))
        assert (paused.tokens == task.vocabulary.id("<pause>")).sum(1).unique().tolist() == [pauses]
        assert torch.equal(paused.targets[paused.loss_mask], answered.targets[answered.loss_mask])


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["arithmetic-pause", "arithmetic-cot", "lis-pause", "lis-cot"])
def test_pauses_and_thoughts_are_evaluated_decoded_and_inspected(preset: str, tmp_path: Path) -> None:
    changes = {"steps": 3, "batch_size": 8, "eval_size": 8, "eval_decoded": 4, "eval_conditions": True}
    run = workbench.train(preset, out=tmp_path / "run", progress=False, **changes)
    assert {"accuracy", "exact_match", "edit_distance"} <= set(run.metrics())
    result = inspect_run(run, n=8, seed=0, only=["accuracy", "attention_graph"])
    assert set(result) == {"accuracy", "attention_graph"}


@pytest.mark.slow
def test_every_hint_of_tempered_sorting_is_learnt_beside_it(tmp_path: Path) -> None:
    changes = {"steps": 240, "batch_size": 16, "eval_size": 8, "log_every": 4, "model": {"d_model": 32}}
    task = {"hints": ["successor", "count", "fill"], "q": 8, "max_length": 6, "test_max_length": None}
    run = workbench.train("sort-tempered-hints", out=tmp_path / "run", progress=False, task=task, **changes)
    assert run.config.mixture.keys() == {"main", "successor", "count", "fill"}
    assert [layer["variant"] for layer in run.config.model.attention] == ["tempered"] * 2
    for name in ("loss", "loss/successor", "loss/count", "loss/fill"):
        losses = run.metrics()[name].dropna()
        assert losses.iloc[-8:].mean() < 0.8 * losses.iloc[:4].mean(), name


def test_projection_trains_with_the_model_and_is_not_saved(tmp_path: Path) -> None:
    changes = {**TINY, "objectives": {"seq_vcr": {"layer": -1, "projection": 32}}}
    run = workbench.train("chain-standard", out=tmp_path / "run", progress=False, **changes)
    assert "seq_vcr_floor" in run.metrics()
    assert not [name for name in load_file(run.path / "weights.safetensors") if "project" in name]


def test_batches_depend_on_seed_and_step_alone_for_any_number_of_workers() -> None:
    def drawn(workers: int, first: int) -> list[torch.Tensor]:
        config = preset_config("sort-standard", {"steps": 7, "batch_size": 9, "workers": workers})
        return [batch.tokens for (batch,) in training_batches(config.make_task(), config, first)]

    alone = drawn(0, 0)
    assert len(alone) == 7 and not torch.equal(alone[0], alone[1])
    for other in (drawn(2, 0), [*alone[:4], *drawn(0, 4)], [*alone[:3], *drawn(1, 3)]):
        assert all(torch.equal(a, b) for a, b in zip(alone, other, strict=True))


def test_training_and_evaluation_see_different_sides_of_the_split() -> None:
    config = preset_config("multiply-vanilla", {"steps": 20})
    task = config.make_task()
    assert all(not task.is_test(batch.tokens).any() for (batch,) in training_batches(task, config))
    assert task.is_test(held_out(task, config).tokens).all()


def test_loss_that_is_not_finite_stops_with_the_last_good_weights(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"not finite at step \d+.*lower learning_rate"):
        workbench.train(
            "chain-standard", out=tmp_path / "run", progress=False, **{**TINY, "learning_rate": 1e30, "warmup": 0}
        )
    run = load_run(tmp_path / "run")
    assert 0 < run.step() < 6
    assert all(p.isfinite().all() for p in run.model().parameters())


def test_training_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    workbench.train("chain-standard", out=tmp_path / "run", progress=False, **TINY)
    assert torch.equal(torch.rand(1), expected)


def test_an_existing_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="already exists"):
        workbench.train("chain-standard", out=tmp_path, progress=False, **TINY)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_overrides_reach_every_level() -> None:
    config = preset_config(
        "multiply-seqvcr",
        {"steps": 7, "task": {"digits": 3}, "model": {"attention": {"variant": "chacal", "gamma": 0.5}}},
    )
    assert config.steps == 7 and config.task["digits"] == 3
    assert config.model.attention[1]["gamma"] == 0.5
    assert preset_config("multiply-seqvcr", {"objectives": {"seq_vcr": None}}).objectives == {"next_token": {}}
    assert preset_config("chain-chacal", {"model": {"attention": {"gamma": 0.8}}}).model.attention[0]["gamma"] == 0.8
    assert preset_config("chain-chacal", {"task": {"name": "sorting"}}).task["name"] == "sorting"


def test_a_whole_config_can_be_trained_and_changed() -> None:
    config = preset_config("chain-chacal", TINY)
    changed = preset_config(config, {"task": {"n": 16}})
    assert (config.model.n_ctx, changed.model.n_ctx) == (8, 16)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"stepz": 3}, "stepz"),
        ({"steps": "many"}, "steps"),
        ({"steps": -1}, "steps"),
        ({"task": {"name": "sort"}}, "sorting"),
        ({"task": {"k": 5}}, "k"),
        ({"task": {"blocks": 5}}, "blocks"),
        ({"model": {"attention": "chacla"}}, "chacal"),
        ({"model": {"attention": {"gamma": 2}}}, "gamma"),
        ({"model": {"attention": {"gama": 0.2}}}, "gamma"),
        ({"model": {"n_heads": 7}}, "n_heads"),
        ({"model": {"width": 7}}, "width"),
        ({"model": {"atention": "chacal"}}, "did you mean .attention."),
        ({"objectives": {"seqvcr": {}}}, "seq_vcr"),
        ({"objectives": {"seq_vcr": {"layer": 9}}}, "layer"),
        ({"objectives": {"seq_vcr": {"lambda": 9}}}, "lambda"),
        ({"device": "cuda:77"}, "cuda:77"),
        ({"model": {"n_ctx": 20}}, "model.n_ctx is 20, but the task makes 32 tokens"),
        ({"clip": float("inf")}, "clip"),
        ({"preset": "another"}, "preset"),
        ({"batch_size": 1, "objectives": {"seq_vcr": {}}}, "batch_size of at least 2"),
    ],
)
def test_wrong_fields_are_one_clear_line_and_nothing_is_written(overrides: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **overrides)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_whole_config_follows_its_overrides_as_a_preset_does() -> None:
    whole = preset_config("chain-chacal", {})
    wider = preset_config(whole, {"model": {"d_model": 128, "n_layers": 2, "attention": {"gamma": 0.5}}})
    assert (wider.model.d_head, wider.model.d_mlp) == (32, 512)
    assert [layer["gamma"] for layer in wider.model.attention] == [0.5, 0.5]
    assert preset_config(whole.model_dump(mode="json"), {}) == whole


def test_unknown_preset_names_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"chain-chacal.*there is.*sort-standard"):
        preset_config("chain-chacl", {})


class TestOpening:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        return workbench.train("chain-standard", out=tmp_path / "run", progress=False, **TINY).path

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="no run folder"):
            load_run(tmp_path / "nowhere")

    def test_folder_of_runs_names_the_runs(self, run: Path) -> None:
        with pytest.raises(ValueError, match="contains the runs run"):
            load_run(run.parent)

    def test_truncated_weights(self, run: Path) -> None:
        whole = (run / "weights.safetensors").read_bytes()
        for size in (0, 4, 100, len(whole) - 7):
            (run / "weights.safetensors").write_bytes(whole[:size])
            with pytest.raises(ValueError, match="truncated or corrupted"):
                load_run(run)

    def test_a_byte_of_the_weights_changed(self, run: Path) -> None:
        whole = bytearray((run / "weights.safetensors").read_bytes())
        whole[-3] ^= 1
        (run / "weights.safetensors").write_bytes(whole)
        with pytest.raises(ValueError, match=r"weights\.safetensors is corrupted"):
            load_run(run).model()

    def test_the_weights_can_be_read_by_whoever_can_read_the_config(self, run: Path) -> None:
        assert (run / "weights.safetensors").stat().st_mode == (run / "config.json").stat().st_mode

    def test_damaged_metrics_do_not_hide_other_runs(self, run: Path) -> None:
        shutil.copytree(run, run.parent / "damaged")
        (run.parent / "damaged" / "metrics.jsonl").write_bytes(b"\xff\xfe{}\n\n")
        frame, problems = table(run.parent)
        assert frame["run"].tolist() == ["run"] and "metrics.jsonl is not text in UTF-8" in problems[0]

    def test_missing_weights(self, run: Path) -> None:
        (run / "weights.safetensors").unlink()
        with pytest.raises(ValueError, match="its weights are gone"):
            load_run(run)

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", '{"format": 99}', "\x00\x01", '{"format": 1}', '{"format": 1, "x": 2}']
    )
    def test_broken_or_foreign_config(self, run: Path, text: str) -> None:
        (run / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"config\.json") as caught:
            load_run(run)
        assert "\n" not in str(caught.value)

    def test_weights_of_another_shape(self, run: Path) -> None:
        config = json.loads((run / "config.json").read_text())
        config["model"]["d_mlp"] = 8
        (run / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=r"does not fit its config: layers\.0\.mlp"):
            load_run(run).model()

    def test_listing_leaves_out_what_cannot_be_opened(self, run: Path) -> None:
        (run.parent / "broken").mkdir()
        (run.parent / "broken" / "config.json").write_text("{")
        assert [found.name for found in scan_runs(run.parent)[0]] == ["run"]

    def test_a_metrics_line_cut_short_is_left_out(self, run: Path) -> None:
        with (run / "metrics.jsonl").open("a") as log:
            log.write('{"step": 9, "lo')
        assert load_run(run).metrics()["step"].max() == 6
