"""A patch grid has the numbers of activation patching, finds what a compiled model does, and stays pale on controls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import workbench
from tests.circuits.conftest import compared
from workbench.circuits import Comparison, activation_patching
from workbench.circuits.patch_grid import labels, patch_grid
from workbench.cli import main
from workbench.runs import Run
from workbench.runs.compiled import compile_run


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("run") / "sorter", {"q": 6, "max_length": 6})


def words(tokens: torch.Tensor) -> list[str]:
    return [f"<{token}>" for token in tokens.tolist()]


def aligned(comparison: Comparison) -> Comparison:
    """The first pair eight times, so that all change and ask at the same positions."""
    return comparison.of(comparison.pairs[torch.zeros(8, dtype=torch.long)])


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_shares_are_activation_patchings_effects_over_the_gap_between_both_runs(direction: str) -> None:
    comparison = replace(compared("standard", n=8), direction=direction)  # type: ignore[arg-type]
    same = aligned(comparison)
    assert labels([same.pairs], words) is not None and labels([comparison.pairs], words) is None
    grid = patch_grid(same, words)
    gap = same.baselines[0].mean() - same.baselines[1].mean()
    for site, shares in grid.grids.items():
        effects = activation_patching(same, site).mean().values
        assert shares.mean().values == pytest.approx(effects / gap, rel=1e-9, abs=1e-12)
    assert set(grid.grids) == {"resid_pre", "attn_out", "mlp_out", "head"} and grid.method == "exact"
    strongest = max(grid.heads, key=lambda place: float(place.share.values))
    assert float(strongest.share.values) == pytest.approx(float(grid.grids["head"].mean().values.max()))
    for place in (*grid.path, *grid.heads, *grid.writes):
        cell = grid.grids[place.site].mean().values[place.layer, place.index]
        assert float(place.share.values) == pytest.approx(float(cell)) and place.control is None


def test_a_position_is_told_with_its_token_and_with_what_is_changed_and_asked() -> None:
    same = aligned(compared("standard", n=8))
    labels = patch_grid(same, words).positions
    changed, asked = (mask[0].nonzero()[:, 0].tolist() for mask in (same.pairs.changed, same.pairs.asked))
    for position, label in enumerate(labels):
        assert label.startswith(f"{position} <{int(same.pairs.clean.tokens[0, position])}>")
        assert ("(changed)" in label) == (position in changed) and ("(asked)" in label) == (position in asked)


def test_the_pairs_behind_a_strongest_place_are_not_those_that_it_was_chosen_on() -> None:
    comparison = compared("standard", n=10)
    grid = patch_grid(comparison, words)
    assert all(int(np.asarray(place.share.n)) <= 5 for place in (*grid.path, *grid.heads))
    odd = comparison.of(comparison.pairs[torch.arange(10)[1::2]])
    place = grid.heads[0]
    effects = activation_patching(odd, "head").mean().values[place.layer, place.index]
    assert float(place.share.values) == pytest.approx(float(effects / (odd.baselines[0] - odd.baselines[1]).mean()))


def test_where_pairs_change_and_ask_elsewhere_each_positions_role_is_patched() -> None:
    comparison = compared("standard", n=8)
    grid = patch_grid(comparison, words)
    assert grid.positions == ("before the change", "the change", "between", "what is asked", "behind")
    residual = grid.grids["resid_pre"]
    mean = residual.mean().values
    assert mean[0, 1] == pytest.approx(1), "the embedding differs at the change alone"
    assert np.nan_to_num(mean[:, [0, 4]]) == pytest.approx(0), "nothing flows back, nor from behind what is asked"
    assert residual.values.shape == (2, 5, 8)


def test_of_a_compiled_sorter_the_control_does_nothing_and_the_answer_arrives_by_attention(sorter: Run) -> None:
    patched = workbench.patch(sorter, n=32)
    grid = patched.grid
    assert grid.control is not None
    most = max(float(np.nanmax(abs(each.mean().values))) for each in grid.control.values())
    assert most < 0.05, "pairs that change nothing relevant"
    best = max(grid.writes, key=lambda place: float(place.share.values))
    assert (best.site, best.layer, grid.positions[best.index]) == ("attn_out", 1, "what is asked")
    assert float(best.share.values) > 0.9
    assert "layer 1, what is asked" in patched.says and "the change" in patched.says


def test_an_estimate_says_so_and_its_strongest_places_are_exact() -> None:
    comparison = aligned(compared("standard", n=8))
    estimate, exact = (patch_grid(comparison, words, method=method) for method in ("estimate", "exact"))
    assert estimate.method == "estimate" and not np.allclose(
        estimate.grids["head"].mean().values, exact.grids["head"].mean().values
    )
    for place in estimate.heads:
        cell = exact.grids["head"].mean().values[place.layer, place.index]
        assert float(place.share.values) == pytest.approx(float(cell))


def test_what_noise_takes_away_is_said_to_be_lost(sorter: Run) -> None:
    lost = workbench.patch(sorter, n=16, direction="noise")
    assert "where most is lost" in lost.says and "comes back" not in lost.says
    assert lost.figure().layout.title.text.startswith("What each part loses")


def test_a_place_is_told_with_the_pairs_that_have_it_and_not_where_it_does_nothing(sorter: Run) -> None:
    patched = workbench.patch(sorter, n=32)
    assert "What the MLP writes: none with 1% or more." in patched.says
    for place in (*patched.grid.heads, *patched.grid.writes):
        told = int(np.asarray(place.share.n))
        assert told == 16 or f"({told} of 16 pairs)" in patched.says


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n": 3}, "3"),
        ({"method": "guess"}, "unknown method 'guess'"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, object], said: str) -> None:
    n = int(wrong.pop("n", 8))  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=said):
        patch_grid(compared("standard", n=n), words, **wrong)  # type: ignore[arg-type]


def test_pairs_that_are_answered_alike_have_nothing_to_bring_back() -> None:
    comparison = compared("standard", n=8)
    same = replace(comparison.pairs, corrupted=comparison.pairs.clean)
    with pytest.raises(ValueError, match="there is nothing to bring back; choose pairs"):
        patch_grid(comparison.of(same), words)


def test_the_command_line_says_it_and_writes_it(
    sorter: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "patched"
    assert main(["patch", str(sorter.path), "symbol", "--n", "16", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "logit difference on 16 pairs of kind symbol" in text and "their shares are of the other 8" in text
    assert {"patched.html", "control.html", "patching.json"} <= {path.name for path in out.iterdir()}
    heads = pd.read_csv(out / "head.csv")
    assert len(heads) == 4 and {"layer", "head", "value", "low", "high", "n"} <= set(heads)
    assert main(["patch", str(sorter.path), "--n", "16", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["method"] == "exact" and {"site", "layer", "index", "share", "interval", "pairs", "control"} == set(
        told["strongest"][0]
    )
    assert {"baselines", "head", "head_control", "resid_pre"} <= set(told["measurements"])
    for wrong, said in (
        (["symbl"], "unknown kind of pair of sorting 'symbl'"),
        (["--method", "acdc"], "unknown method 'acdc'"),
        (["--metric", "loss"], "unknown metric 'loss'"),
        (["--direction", "up"], "unknown direction 'up'"),
        (["--n", "3"], "4 pairs or more"),
        (["--out", str(out)], "patched"),
    ):
        assert main(["patch", str(sorter.path), *wrong]) == 2
        assert said in capsys.readouterr().err


def test_before_the_first_layer_the_path_stands_where_the_pairs_differ_whatever_the_estimates_sign() -> None:
    comparison = compared("standard", n=8)
    for pair in range(8):
        same = comparison.of(comparison.pairs[torch.full((8,), pair)])
        (first, *_) = patch_grid(same, words, method="estimate").path
        exact = patch_grid(same, words, method="exact").grids["resid_pre"].mean().values[0]
        assert same.pairs.changed[0, first.index] and float(first.share.values) == pytest.approx(exact[first.index])
