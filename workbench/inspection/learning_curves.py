"""A run's training log: its learning curves and its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.runs import Run, RunConfig
from workbench.runs.fit_to_task import LARGEST_NUMBER
from workbench.runs.log import RATES

if TYPE_CHECKING:
    import pandas as pd

NEXT_TOKEN = "next_token"  # the objective, and the name of its figure in the log
LARGEST_LOSS = 700.0  # nats: its exponential still is a number
UNITS = {"loss": "nats", "test_loss": "nats", NEXT_TOKEN: "nats", "edit_distance": "tokens", "seconds": "s"}


@dataclass(frozen=True)
class _Logged:
    """The description of a learning curve.

    Attributes:
        title: its name in figures.
        units: of its values.
        caption: what it was measured on.
    """

    title: str
    units: str
    caption: str


def learning_curves(run: Run, only: Sequence[str] = ()) -> dict[str, Measurement]:
    """The curves that were logged while a run trained, each with the single dim `step`; those that were logged at all.

    On held-out sequences: `accuracy` and `whole_answer`, `test_loss`, of text `perplexity`, which is its exponential,
    of answers that were decoded `exact_match`. On questions of the training side, with `eval_training`:
    `accuracy/training` and `test_loss/training`. Of the training batches: `loss`, the sum of the run's objectives, and
    `next_token`, the one that runs with different objectives have in common; in a run with no other objective the two
    are the same. Nothing for a model that was not trained.

    Args:
        run: the run.
        only: the curves to make; by default all.

    Raises:
        ValueError: if the log is damaged.
    """
    metrics, config = run.metrics(), run.config
    if "test_loss" in metrics and run.task().running_text:
        metrics["perplexity"] = np.exp(metrics["test_loss"].to_numpy(dtype=float).clip(max=LARGEST_LOSS))
    alone = set(config.objectives) == {NEXT_TOKEN}
    if alone and "loss" in metrics and NEXT_TOKEN not in metrics:
        metrics[NEXT_TOKEN] = metrics["loss"]
    about = {
        name: logged for name, logged in _about(config, alone).items() if name in metrics and (not only or name in only)
    }
    return {name: _curve(run, metrics, name, logged) for name, logged in about.items()}


def logged_on(run: Run) -> str:
    """What the accuracy of a run's log was measured on, in words."""
    return f"{run.config.eval_size:,} held-out sequences {run.task().drawn}"


def single(run: Run, name: str, value: float, units: str | None = None) -> Measurement:
    """One number of a run's log as a measurement without dims; its n is the sequences of an evaluation.

    Args:
        run: the run.
        name: of a metric in the log, or of what was made of one.
        value: the number.
        units: by default those of the metric.
    """
    units = units_of(name) if units is None else units
    n = np.asarray(run.config.eval_size)
    return Measurement(name, np.asarray(value), (), {}, units, {"model": run.name}, n=n)


def units_of(name: str) -> str:
    """The units of a metric of the training log, such as `accuracy/length=18`; nothing where they are not known."""
    first = name.split("/")[0]
    return "share" if first in RATES else UNITS.get(first, "")


def _about(config: RunConfig, alone: bool) -> dict[str, _Logged]:
    """Every curve that a run can have, in order; `alone` says that its only objective is the next-token loss."""
    held_out = f"On the same {config.eval_size:,} held-out sequences drawn, each time."
    decoded = f"Of {config.eval_decoded:,} held-out questions, answered by greedy decoding."
    training = f"On the same sequences of the training side each time, up to {config.eval_size:,}."
    return {
        "accuracy": _Logged("Accuracy", "share", held_out),
        "accuracy/training": _Logged("Accuracy on training questions", "share", training),
        "whole_answer": _Logged("Whole answers right", "share", f"{held_out} Predicted from the true tokens before."),
        "exact_match": _Logged("Exact match of decoded answers", "share", decoded),
        "loss": _Logged("Loss", "nats" if alone else "sum of objectives", "Of one batch."),
        NEXT_TOKEN: _Logged("Next-token loss", "nats", "Of one batch."),
        "test_loss": _Logged("Test loss", "nats", f"{held_out} The next-token loss alone, whatever the objectives."),
        "test_loss/training": _Logged("Loss on training questions", "nats", f"{training} The next-token loss alone."),
        "perplexity": _Logged("Perplexity", "perplexity", f"{held_out} The exponential of the test loss."),
    }


def _curve(run: Run, metrics: pd.DataFrame, name: str, logged: _Logged) -> Measurement:
    rows = metrics.loc[metrics["step"].between(0, LARGEST_NUMBER), ["step", name]].dropna()
    return Measurement(
        name=logged.title,
        values=rows[name].to_numpy(dtype=float),
        dims=("step",),
        coords={"step": rows["step"].tolist()},
        units=logged.units,
        settings={"model": run.name, "seed": run.config.seed},
        caption=f"As it was logged while the run trained. {logged.caption}",
    )


def events(run: Run) -> list[tuple[int, str]]:
    """The events in a run's log as (step, words): accuracies at which checkpoints were kept, the target reached.

    Raises:
        ValueError: if the log is damaged.
    """
    noted = []
    for row in run.log():
        step, passed = row.get("step"), row.get("passed")
        if not isinstance(step, int) or not 0 <= step <= LARGEST_NUMBER:
            continue  # anyone can have written it
        if row.get("event") == "checkpoint" and isinstance(passed, list):
            levels = [level for level in passed if isinstance(level, float | int)]
            noted += [(step, f"accuracy ≥ {percent(max(levels))}")] if levels else []
        elif row.get("event") == "target":
            noted.append((step, "target reached"))
    return list(dict.fromkeys(noted))
