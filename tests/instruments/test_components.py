"""Principal components: planted mixtures are found with their shares, the picture is one, and shuffled labels lose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from workbench import figures
from workbench.inspection.components import components, label_names
from workbench.instruments.residual.components import _between_classes, _principal_components
from workbench.judgement.words.figures import told_apart
from workbench.runs import Run
from workbench.runs.compiled import compile_run


def mixture(n: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    """Three Gaussians of standard deviation 0.1 in 8 dimensions, on the corners of a triangle with sides of 5."""
    draws = torch.Generator().manual_seed(3)
    label = torch.arange(n) % 3
    corners = torch.zeros(3, 8, dtype=torch.float64)
    corners[1, 2], corners[2, 2], corners[2, 5] = 5.0, 2.5, 5 * 3**0.5 / 2
    return corners[label] + 0.1 * torch.randn(n, 8, generator=draws, dtype=torch.float64), label


def test_three_planted_clusters_are_in_two_components_and_between_classes() -> None:
    rows, label = mixture()
    scores, directions, shares = _principal_components(rows, 4)
    # A triangle with equal sides has variance 5² / 6 along every direction of its plane; noise 0.01 along all
    signal = 25 / 6 + 0.01
    assert shares[:2] == pytest.approx([signal / (2 * signal + 0.06)] * 2, abs=0.02) and shares[2:].max() < 0.002
    plane = directions[:2].abs().square()
    assert plane[:, [2, 5]].sum(1) == pytest.approx([1, 1], abs=1e-3)
    means = torch.stack([scores[label == one, :2].mean(0) for one in range(3)])
    assert torch.pdist(means) == pytest.approx([5, 5, 5], abs=0.05)
    assert _between_classes(rows, label) == pytest.approx(1 - 0.08 / (2 * 25 / 6 + 0.08), abs=1e-3)
    order = torch.randperm(len(label), generator=torch.Generator().manual_seed(0))
    assert _between_classes(rows, label[order]) < 0.02


def test_components_are_those_of_a_reference_up_to_sign_and_signs_are_fixed() -> None:
    rows = torch.randn(50, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores, directions, shares = _principal_components(rows, 5)
    reference = PCA(5).fit(rows.numpy())
    assert shares.numpy() == pytest.approx(reference.explained_variance_ratio_, abs=1e-9)
    assert np.abs(scores.numpy()) == pytest.approx(np.abs(reference.transform(rows.numpy())), abs=1e-9)
    assert (directions.gather(1, directions.abs().argmax(1, keepdim=True)) > 0).all()
    again = _principal_components(rows.flip(0), 5)
    assert torch.allclose(again[0].flip(0), scores) and torch.allclose(again[1], directions)


def test_rows_that_do_not_differ_have_no_variance_and_too_few_are_refused() -> None:
    scores, _, shares = _principal_components(torch.ones(4, 3), 2)
    assert not scores.any() and not shares.any()
    assert np.isnan(_between_classes(torch.ones(4, 3), torch.arange(4) % 2))
    with pytest.raises(ValueError, match="2 rows of 3 numbers"):
        _principal_components(torch.ones(2, 3), 1)


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path: Path = tmp_path_factory.mktemp("components") / "sorter"
    return compile_run("sorter", path, {"q": 6})


def test_a_compiled_sorters_delimiter_holds_the_minimum_and_nothing_of_shuffled_ones(sorter: Run) -> None:
    """Theorem 5.1: after the first attention layer the delimiter holds the minimum."""
    how = {"label": "minimum", "n": 8, "seed": 0, "k": 4}
    found = components(sorter, point="blocks.0.hook_resid_mid", **how)
    true, shuffled = (found.between.select(within="all", labels=labels) for labels in ("true", "shuffled"))
    before = components(sorter, point="blocks.0.hook_resid_pre", **how).between.select(within="all", labels="true")
    assert true.values > 0.9 > 0.3 > shuffled.high and np.isnan(before.values), "before it, all delimiters are equal"
    assert found.explained.values.sum() <= 1 + 1e-9
    assert set(found.scores.labels[0]) <= set(map(str, range(1, 7)))
    said = told_apart(found.between)
    assert said is not None and "between classes of minimum, with shuffled labels at most" in said


def test_few_classes_have_colours_many_a_scale(sorter: Run) -> None:
    few = components(sorter, label="minimum", n=4, seed=0, point="blocks.0.hook_resid_mid")
    figure = figures.components(few, 1, 3)
    assert [trace.name for trace in figure.data] == [f"minimum {i}" for i in sorted(set(few.scores.labels[0]))]
    assert sum(len(trace.x) for trace in figure.data) == few.scores.values.shape[1]
    assert figure.layout.xaxis.title.text.startswith("component 1 (")
    many = components(sorter, label="length", n=4, seed=0)
    assert many.scores.settings["classes"] > 6
    (scale,) = figures.components(many).data
    assert scale.marker.colorbar.title.text == "length" and len(scale.x) <= 2000


def test_the_scale_of_tokens_has_their_words_not_their_numbers(tmp_path: Path) -> None:
    wide = compile_run("sorter", tmp_path / "wide", {"q": 9})
    (scale,) = figures.components(components(wide, label="identity", n=8, seed=0)).data
    assert scale.marker.colorbar.ticktext[0] == "1" and scale.marker.colorbar.tickvals[0] == 0


def test_what_there_is_not_is_refused(sorter: Run) -> None:
    assert "minimum" in label_names(sorter.task())
    with pytest.raises(ValueError, match="label of sorting"):
        components(sorter, label="maximum", n=4, seed=0)
    with pytest.raises(ValueError, match="point of the residual"):
        components(sorter, label="minimum", n=4, seed=0, point="blocks.9.hook_resid_post")
