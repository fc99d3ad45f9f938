"""An input through training: each frame is the canvas of its checkpoint, and of many checkpoints some are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from workbench import figures
from workbench.figures.training_film import MOST, film_steps
from workbench.runs import Run
from workbench.util.seeds import generator


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out: Path = tmp_path_factory.mktemp("film") / "run"
    return workbench.train("chain-chacal", out=out, progress=False, steps=4, eval_size=8, checkpoint_count=2)


def test_each_frame_is_the_canvas_of_its_checkpoint_and_the_drawing_is_the_last(run: Run) -> None:
    steps, batch, told = [run.checkpoints()[0], run.step()], run.task().sample(1, generator(0, "film")), []
    film = figures.training_film(run, batch, steps, layer=0, head=1, progress=told.append)
    each = [
        figures.canvas(workbench.see(run, batch, step=step), layer=0, head=1) for step in (run.checkpoints()[0], None)
    ]
    assert film.data["frames"] == [one.svg() for one in each] and film.svg() == each[-1].svg()
    assert each[0].svg() != each[1].svg(), "training changed something"
    scored = int(batch.loss_mask.sum())
    assert [label.split(":")[0] for label in film.data["labels"]] == [f"step {step}" for step in steps]
    assert all(label.endswith(f"of {scored} answers right") for label in film.data["labels"])
    assert told == [0.5, 1.0] and f"{steps[0]} to {steps[-1]}" in film.subtitle


def test_of_many_checkpoints_the_first_the_last_and_some_between_are_drawn() -> None:
    few = film_steps(range(1000))
    assert len(few) == MOST == len(set(few)) and (few[0], few[-1]) == (0, 999) and few == sorted(few)
    assert film_steps([0, 5, 9]) == [0, 5, 9]


def test_no_checkpoint_and_one_that_was_not_kept_are_said(run: Run) -> None:
    batch = run.task().sample(1, generator(0, "film"))
    with pytest.raises(ValueError, match="needs the training step"):
        figures.training_film(run, batch, [], layer=0, head=0)
    with pytest.raises(ValueError, match="999"):
        figures.training_film(run, batch, [999], layer=0, head=0)
