"""Probes of runs: what is decoded, what it is worth, and that sequences are never on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from workbench.capture import Subject, capture
from workbench.judgement.decodable import ADDED, PAIRS, _before_attention
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.probes import CONDITIONS, Worth, description_length, judge, probe, probe_capture, selectivity, verdict
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.causal_test import _others
from workbench.probes.fitting import Split, by_token, decode
from workbench.probes.positions import Rows
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.tasks import Batch
from workbench.util.seeds import generator

MID = "blocks.0.hook_resid_mid"


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_sequences_are_never_on_both_sides() -> None:
    """Rows that name their sequence tell its label only to a probe that has seen the sequence."""
    example = torch.arange(60).repeat_interleave(5)
    labels = torch.randint(2, (60,), generator=chance()).repeat_interleave(5)
    split = Split.by_example(example, chance())
    assert not set(example[split.fit].tolist()) & set(example[split.test].tolist())
    assert split.n_test == 18
    x = torch.eye(60)[example][None, None]
    right = decode(x, [labels[None]], split, generator=chance())
    assert right.shape == (1, 1, 1, 18) and right.mean() < 0.8


def test_the_same_question_drawn_twice_is_never_on_both_sides(tmp_path: Path) -> None:
    """Two digits times two has a few hundred questions to test, which a probe could learn by heart."""
    run = workbench.train("multiply-vanilla", out=tmp_path / "run", progress=False, steps=1)
    source = Source.of_run(run, MID, n=512, seed=0, step=None)
    found = ProbeData.of(source, ["carry"], "each", 0)
    width = int(source.task.question_length(source.batch.tokens).max())
    questions = [tuple(row) for row in source.batch.tokens[found.where.example, :width].tolist()]
    fitted, tried = ({questions[i] for i in side.tolist()} for side in (found.split.fit, found.split.test))
    assert len(fitted | tried) < 480 and not fitted & tried
    directions, edited = (source.task.sample(256, generator(seed, "probe"), split="test") for seed in (1, 0))
    others = _others(source.task, directions, edited).tokens[:, :width].tolist()
    assert 0 < len(others) < 256 and not {*map(tuple, others)} & {*map(tuple, edited.tokens[:, :width].tolist())}


def test_baselines_are_what_they_say() -> None:
    """`current token` is right where the token decides, `most frequent label` as often as that label is there."""
    example, token = torch.arange(400), torch.arange(400) % 4
    label = torch.tensor([0, 0, 1, 2])[token]
    split = Split.by_example(example, chance())
    assert by_token(token[None], [label[None]], split).mean() == 1.0
    share = (label[split.test] == 0).double().mean()
    assert by_token(None, [label[None]], split).mean().item() == pytest.approx(float(share))
    drawn = torch.randint(3, (400,), generator=chance())
    assert by_token(token[None], [drawn[None]], split).mean() < 0.5


def test_of_a_set_all_members_count() -> None:
    members = torch.randint(2, (500, 3), generator=chance())
    split = Split.by_example(torch.arange(500), chance())
    plain = decode(members.float()[None, None], [members[None]], split, generator=chance())
    assert plain.mean() == 1.0
    partly = decode(members[:, :2].float()[None, None], [members[None]], split, generator=chance())
    assert 0.3 < partly.mean() < 0.7


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("probe") / "run"
    return workbench.train("chain-chacal", out=out, progress=False, checkpoint_count=3)


def test_the_root_is_decoded_from_a_trained_model_and_from_no_control(run: Run) -> None:
    found = probe(run, "root", points=MID, n=160)
    assert found.dims == ("condition",) and found.coords["condition"] == list(CONDITIONS)
    at = dict(zip(CONDITIONS, found.values, strict=True))
    assert at["trained"] > 0.97
    assert max(at[name] for name in CONDITIONS[1:] if name != "control task") < 0.5
    assert verdict(found).startswith("decodable: ")
    assert np.array_equal(found.values, probe(run, "root", points=MID, n=160).values)
    assert selectivity(found).values == pytest.approx(at["trained"] - at["control task"])


def test_layers_places_and_labels_are_dims_where_there_are_several(run: Run) -> None:
    points = [f"blocks.0.hook_resid_{at}" for at in ("pre", "mid", "post")]
    found = probe(run, "root", n=96)
    assert found.dims == ("point", "condition") and found.coords["point"] == points
    both = probe(run, ["root", "depth"], points=MID, positions=(9, 17), n=96)
    assert both.dims == ("label", "place", "condition") and both.coords["place"] == ["9", "17"]
    assert np.isnan(both.select(label="depth", condition="trained").values).all(), "at one position it has one value"
    every = probe(run, "root", points=MID, positions="each", n=96, controls=())
    assert every.dims == ("place", "condition") and len(every.coords["place"]) == 28


def test_other_kinds_and_numbers(run: Run) -> None:
    root = {name: probe(run, "root", points=MID, kind=name, n=256, controls=()).values[0] for name in ("ridge", "mlp")}
    assert root["ridge"] > 0.9 and root["mlp"] > 0.9
    narrow = probe(run, "root", points=MID, kind="low_rank", rank=3, n=256, controls=()).values[0]
    assert narrow < root["ridge"], "32 roots do not fit into three directions"
    position = probe(run, "position", points="blocks.0.hook_resid_pre", kind="regression", n=128)
    assert position.units == "R²" and position.values[0] > 0.98
    assert position.select(condition="most frequent label").values == 0


def test_a_checkpoint_is_probed_as_it_was(run: Run) -> None:
    start, end = (probe(run, "root", points=MID, n=96, step=step) for step in (run.checkpoints()[0], None))
    assert start.values[0] < 0.5 < end.values[0] and start.settings["model"] == "run at step 0"
    for control in ("re-initialised model", "current token", "most frequent label"):
        assert start.select(condition=control).values == end.select(condition=control).values
    with pytest.raises(ValueError, match="no checkpoint of step 7"):
        probe(run, "root", points=MID, n=96, step=7)


def test_intervals_over_seeds_are_over_seeds(run: Run) -> None:
    found = probe(run, "root", points=MID, n=96, seeds=3, controls=("most frequent label",))
    alone = [probe(run, "root", points=MID, n=96, seed=seed, controls=()).values[0] for seed in range(3)]
    assert found.values[0] == pytest.approx(np.mean(alone)) and found.n is not None and found.n[0] == 3
    assert found.low is not None and found.low[0] <= min(alone) + 1e-9


def test_a_capture_is_probed_like_a_run(run: Run) -> None:
    """On the sequences that `probe` draws, the numbers are the same."""
    task, model = run.task(), run.model()
    batch = task.sample(96, generator(0, "probe"), split="test")
    seen = capture(model, Subject.of(model, task, run.name), batch, [MID])
    found = probe_capture(seen, "root")
    whole = probe(run, "root", points=[MID], n=96)
    assert "re-initialised model" not in found.coords["condition"]
    for name in found.coords["condition"]:
        assert found.select(condition=name).values == whole.select(condition=name).values
    with pytest.raises(ValueError, match="no re-initialised model"):
        probe_capture(seen, "root", controls=["re-initialised model"])


def test_runs_opened_by_path_give_the_same_figures(run: Run) -> None:
    reopened = workbench.load_run(Path(run.path))
    a, b = (probe(r, "depth", points="blocks.0.hook_resid_post", n=64) for r in (run, reopened))
    assert np.array_equal(a.values, b.values, equal_nan=True)


def test_a_label_that_is_nowhere_among_others_that_are_has_no_number(tmp_path: Path) -> None:
    sorter = compile_run("sorter", tmp_path / "sorter", {"q": 9})
    found = probe(sorter, ["token", "minimum"], points=MID, positions=0, n=64)
    assert found.select(label="token", condition="trained").values > 0.5
    assert np.isnan(found.select(label="minimum").values).all()
    with pytest.raises(ValueError, match="nothing to tell apart"):  # one value among those fitted, though not shuffled
        probe(sorter, "minimum", points=MID, positions="delimiter", n=10, seed=7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "leaf"}, "unknown label of pointer_chain 'leaf'.*ancestor_1, ancestor_2"),
        ({"points": "blocks.7.hook_resid_mid"}, "no hook point"),
        ({"points": "blocks.0.attn.hook_pattern"}, "no vector per position"),
        ({"points": [MID, "blocks.0.attn.hook_q", "blocks.0.mlp.hook_pre"]}, "points of one width"),
        ({"positions": 0}, "nothing at position 0"),
        ({"positions": 32}, "no position 32; the inputs have 32 tokens"),
        ({"positions": "delimiter"}, "have no delimiter"),
        ({"positions": "clauses"}, "have no clauses"),
        ({"positions": "box A"}, "have no clauses"),
        ({"positions": "verbs"}, "no rule 'verbs'.*labelled, each, scored"),
        ({"label": "depth", "positions": 9}, "nothing to tell apart"),
        ({"kind": "svm"}, "unknown kind of probe 'svm'"),
        ({"l3": 1}, "no setting 'l3'; there is: l2"),
        ({"generator": 1}, "no setting 'generator'; there is: l2"),
        ({"split": 1}, "no setting 'split'; there is: l2"),
        ({"controls": ("placebo",)}, "unknown control 'placebo'"),
        ({"l2": 0}, "l2 of a probe is a number above 0, not 0"),
        ({"kind": "low_rank", "rank": 1.5}, "rank of a probe is a whole number of at least 1"),
        ({"kind": "regression", "rank": 2}, "no setting 'rank'; there is: l2"),
        ({"seeds": 0}, "1 seed, not n=32, seeds=0"),
        ({"n": 1}, "at least 2 sequences and 1 seed, not n=1"),
    ],
)
def test_wrong_questions_are_refused(run: Run, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        probe(run, **{"label": "root", "points": MID, "n": 32, **settings})


def test_what_is_held_plainly_costs_fewer_bits_and_is_learnt_from_less(run: Run) -> None:
    found = description_length(run, "root", points=MID, n=256)
    bits = {name: float(found.bits.select(condition=name).values) for name in found.bits.coords["condition"]}
    assert found.uniform == 5 and bits["trained"] < 1.5 < 4 < min(bits["re-initialised model"], bits["shuffled labels"])
    assert found.curve.coords["fitted"] == [16, 32, 64, 128, 179]
    trained = found.curve.select(condition="trained").values
    assert trained[0] < trained[-1] and trained[-1] > 0.97
    assert bits["shuffled labels"] < 2 * found.uniform, "doubt keeps what is wrong from costing without end"
    with pytest.raises(ValueError, match="ridge has not; there is: logistic"):
        description_length(run, "root", points=MID, kind="ridge")
    with pytest.raises(ValueError, match="more than 16 sequences"):
        description_length(run, "root", points=MID, n=20)


def outcome(
    trained: float,
    best: float,
    width: float,
    fresh: float = 0.1,
    added: float = 0.1,
    pairs: float = 0.1,
    n: int = 100,
    **about: object,
) -> Measurement:
    """Of a probe, its `current token` baseline and the rest."""
    values = np.array([trained, fresh, best, added, pairs, 0.1, 0.2])
    ends = {"low": values - width, "high": values + width, "n": np.full(7, n)}
    coords = {"condition": CONDITIONS[:-1]}
    return Measurement("Logistic probe", values, ("condition",), coords, "share", about, **ends)  # type: ignore[arg-type]


def test_a_verdict_needs_the_whole_interval_above_the_best_baseline() -> None:
    said = "97% [92, 102] of 100 sequences, against 31% for the current token alone"
    assert verdict(outcome(0.97, 0.31, 0.05)) == f"decodable: {said}; 10% from a re-initialised model"
    assert verdict(outcome(0.97, 0.31, 0.05, 0.95)).endswith(
        "; 95% from a re-initialised model, so no clear gain from training"
    )
    undecided = verdict(outcome(0.97, 0.31, 0.34))
    assert undecided.startswith(
        "undecided whether better than its baselines: 97% [63, 131] of 100 sequences, against 31%"
    )
    assert verdict(outcome(0.3, 0.31, 0.001)).startswith("no better than its baselines: 30%")
    assert verdict(outcome(0.97, 0.31, np.nan)).startswith("undecided, there is no interval: 97%")
    assert "nothing to tell apart" in verdict(outcome(np.nan, np.nan, np.nan))


def test_a_verdict_needs_as_many_sequences_as_any_interval_needs() -> None:
    assert judge(outcome(0.97, 0.31, 0.05, n=LEAST_FOR_A_VERDICT)).worth is Worth.DECODABLE
    few = outcome(0.97, 0.31, 0.05, n=LEAST_FOR_A_VERDICT - 1)
    assert judge(few).worth is Worth.TOO_FEW
    assert verdict(few).startswith("undecided, 4 sequences and a verdict needs 5: 97%")
    assert "2 seeds and a verdict needs 5" in verdict(outcome(0.97, 0.31, 0.05, n=2, seeds=2))


def test_what_token_and_position_tell_is_not_called_decodable() -> None:
    """It must be beaten as the others; and before attention there is nothing else, whatever its probe finds."""
    for family in ("added", "pairs"):
        placed: list[Any] = [outcome(0.97, 0.31, 0.05, **{family: share}) for share in (0.8, 0.98, 0.9)]
        found = [judge(each).worth for each in placed]
        assert found == [Worth.DECODABLE, Worth.TOKEN_AND_POSITION, Worth.UNDECIDED]
    early: dict[str, Any] = {"point": "blocks.0.hook_resid_pre", "label": "longest_ending_here"}
    assert judge(outcome(0.97, 0.31, 0.05, **early)).worth is Worth.TOKEN_AND_POSITION
    assert judge(outcome(0.97, 0.31, 0.05, **{**early, "point": MID})).worth is Worth.DECODABLE
    assert judge(outcome(0.97, 0.31, 0.05, **{**early, "label": "position"})).worth is Worth.DECODABLE
    assert all(
        _before_attention(point) for point in ("hook_embed", "blocks.0.ln1.hook_normalized", "blocks.0.attn.hook_q")
    )
    assert not any(_before_attention(point) for point in (MID, "blocks.0.attn.hook_z", "blocks.1.attn.hook_q"))


def test_the_baselines_of_token_and_position_know_both_or_their_pairs() -> None:
    """Their sum, and an exclusive or of them, which neither tells alone; and nothing else."""
    token, position = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    token, position = token.flatten().repeat(16), position.flatten().repeat(16)
    chance_label = torch.randint(2, (len(token),), generator=chance())
    labels = [(token + position > 7).long(), (token + position) % 2, chance_label, position]
    rows = Rows(torch.arange(len(token)), position[None], ("here",))
    split = Split.by_example(rows.example, chance())
    batch = Batch(token[:, None].expand(-1, 8), token[:, None].expand(-1, 8), torch.ones(len(token), 8) > 0)
    source = Source(workbench.tasks.make("sorting"), batch, [MID], lambda where: torch.empty(0), (), "none")
    found = ProbeData(source, rows, [label[None] for label in labels], rows.example, split, 0)
    added, pairs = (found.outcome(name, "logistic", {})[:, 0, 0].mean(-1) for name in (ADDED, PAIRS))
    assert added[0] > 0.98 and pairs[1] == 1.0 and max(added[1], added[2], pairs[2]) < 0.6
    assert torch.isnan(added[3]) and torch.isnan(pairs[3]), "of the position itself they would be no baselines"
    assert found.outcome("current token", "logistic", {})[1].mean() < 0.6
