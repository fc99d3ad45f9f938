"""How alike the layers of runs are: of one with itself, with a checkpoint of its own, and with another run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from workbench import figures, inspection
from workbench.capture import Subject, capture
from workbench.inspection.layer_similarity import layer_similarity
from workbench.instruments.residual import similarity
from workbench.instruments.residual.projection import from_embedding
from workbench.runs import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    root: Path = tmp_path_factory.mktemp("alike")
    how: dict[str, object] = {"progress": False, "steps": 12, "eval_size": 32, "checkpoint_count": 2}
    one = workbench.train("sort-tempered", out=root / "one", **how)  # type: ignore[arg-type]
    small = {"model": {"n_layers": 1, "d_model": 32, "n_heads": 2}}
    return one, workbench.train("sort-standard", out=root / "other", **how, **small)  # type: ignore[arg-type]


def test_all_layers_of_both_are_compared_over_every_real_token_of_the_test_sequences(runs: tuple[Run, Run]) -> None:
    one, other = runs
    (own, _), (between, _) = layer_similarity(one, n=4, seed=0), layer_similarity(one, other, n=4, seed=0)
    task = one.task()
    batches = [batch for _, _, batch in inspection.test_batches(task, 4, 0)]
    assert own.settings["tokens"] == sum(int(task.lengths(batch.tokens).sum()) for batch in batches)
    assert own.values == pytest.approx(own.values.T) and own.values.diagonal() == pytest.approx(1.0)
    assert between.values.shape == (own.values.shape[0], 3), "the other has one layer, of another width"
    model, subject = one.model(), Subject.of(one.model(), task, one.name)
    seen = [capture(model, subject, batch, from_embedding(subject)) for batch in batches]
    assert own.values == pytest.approx(similarity.measure(seen).values, abs=1e-6)


def test_checkpoints_are_compared_and_the_null_is_near_nothing(runs: tuple[Run, Run]) -> None:
    one, _ = runs
    first, last = one.checkpoints()[0], one.checkpoints()[-1]
    moved, null = layer_similarity(one, n=4, seed=0, step=first, second_step=last)
    back, _ = layer_similarity(one, n=4, seed=0, step=last, second_step=first)
    assert moved.values == pytest.approx(back.values.T, abs=1e-6) and moved.values.max() < 1
    assert np.abs(null.values).max() < 0.2
    with pytest.raises(ValueError, match="no checkpoint of step 999; there is: 0, 1, 12"):
        layer_similarity(one, n=2, seed=0, second_step=999)


def test_the_map_has_a_row_for_each_layer_of_the_one_and_a_column_for_each_of_the_other(runs: tuple[Run, Run]) -> None:
    between, null = layer_similarity(*runs, n=4, seed=0)
    figure = figures.layer_similarity(between, null)
    (drawn,) = figure.data
    assert np.array(drawn.z) == pytest.approx(between.values)
    assert (len(drawn.y), len(drawn.x)) == between.values.shape and drawn.y[0] == "embedding"
    assert (figure.layout.yaxis.title.text, figure.layout.xaxis.title.text) == ("one", "other")
    assert f"of shuffled tokens at most {null.values.max():.2f}" in figure.layout.title.subtitle.text
