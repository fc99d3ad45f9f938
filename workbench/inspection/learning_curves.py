"""A run's training log: its learning curves and its events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.runs import Run, RunConfig
from workbench.runs.fit_to_task import LARGEST_NUMBER
from workbench.runs.log import RATES

NEXT_TOKEN = "next_token"  # the objective, and the name of its figure in the log
LARGEST_LOSS = 700.0  # nats: its exponential still is a number
UNITS = {"loss": "nats", "test_loss": "nats", NEXT_TOKEN: "nats", "edit_distance": "tokens", "seconds": "s"}


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
    curves = {}
    for name, (title, units, caption) in _about(config, alone).items():
        if name in metrics and (not only or name in only):
            rows = metrics.loc[metrics["step"].between(0, LARGEST_NUMBER), ["step", name]].dropna()
            curves[name] = Measurement(
                name=title,
                values=rows[name].to_numpy(dtype=float),
                dims=("step",),
                coords={"step": rows["step"].tolist()},
                units=units,
                settings={"model": run.name, "seed": config.seed},
                caption=f"As it was logged while the run trained. {caption}",
            )
    return curves


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


def _about(config: RunConfig, alone: bool) -> dict[str, tuple[str, str, str]]:
    """Every curve that a run can have, in order -> its title, its units, and what it was measured on.

    `alone` says that the run's only objective is the next-token loss.
    """
    held_out = f"On the same {config.eval_size:,} held-out sequences drawn, each time."
    decoded = f"Of {config.eval_decoded:,} held-out questions, answered by greedy decoding."
    training = f"On the same sequences of the training side each time, up to {config.eval_size:,}."
    return {
        "accuracy": ("Accuracy", "share", held_out),
        "accuracy/training": ("Accuracy on training questions", "share", training),
        "whole_answer": ("Whole answers right", "share", f"{held_out} Predicted from the true tokens before."),
        "exact_match": ("Exact match of decoded answers", "share", decoded),
        "loss": ("Loss", "nats" if alone else "sum of objectives", "Of one batch."),
        NEXT_TOKEN: ("Next-token loss", "nats", "Of one batch."),
        "test_loss": ("Test loss", "nats", f"{held_out} The next-token loss alone, whatever the objectives."),
        "test_loss/training": ("Loss on training questions", "nats", f"{training} The next-token loss alone."),
        "perplexity": ("Perplexity", "perplexity", f"{held_out} The exponential of the test loss."),
    }


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
