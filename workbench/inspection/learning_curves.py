"""A run's training log: its learning curves, its events, and where accuracy rose most."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.measurement import Measurement
from workbench.runs import Run
from workbench.runs.config import LARGEST_NUMBER

LEAST = 0.05  # a smaller rise of accuracy is not called one: an evaluation has a few hundred sequences


@dataclass(frozen=True)
class Rise:
    """Where a curve rose most.

    Attributes:
        start, end: the steps of the two successive evaluations that it lies between.
        before, after: the values there.
    """

    start: int
    end: int
    before: float
    after: float

    @property
    def words(self) -> str:
        """The rise in words, for figures."""
        return f"steepest rise: {self.before:.0%} to {self.after:.0%}"


def learning_curves(run: Run) -> dict[str, Measurement]:
    """The curves that were logged while a run trained, each with the single dim `step`.

    Returns `accuracy` (of the main task, on held-out sequences) and `loss` (of the training batches), those that were
    logged at all; nothing for a model that was not trained.

    Raises:
        ValueError: if the log is damaged.
    """
    metrics, config = run.metrics(), run.config
    about = {
        "accuracy": ("Accuracy", "share", f"On the same {config.eval_size:,} held-out sequences drawn, each time."),
        "loss": ("Loss", "nats" if set(config.objectives) == {"next_token"} else "sum of objectives", "Of one batch."),
    }
    curves = {}
    for name, (title, units, caption) in about.items():
        if name not in metrics:
            continue
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
            noted += [(step, f"accuracy ≥ {max(levels):.0%}")] if levels else []
        elif row.get("event") == "target":
            noted.append((step, "target reached"))
    return list(dict.fromkeys(noted))


def steepest_rise(curve: Measurement, *, least: float = LEAST) -> Rise | None:
    """The two successive points of a curve between which it rises most per training step; the first of equals.

    This is arithmetic, not a test: the steepest place of a curve that rises evenly is nothing special, what happened
    between two evaluations is not known, and before the first none was made. On a logarithmic axis another place may
    look steeper.

    Args:
        curve: the single dim `step`, such as the accuracy of `learning_curves`.
        least: a smaller rise between two points is passed over, however steep.

    Returns None if no two points rise by that much.
    """
    assert curve.dims == ("step",), f"a curve has the single dim step, not {curve.dims}"
    steps, values = list(curve.coords["step"]), curve.values.tolist()
    pairs = zip(steps, steps[1:], values, values[1:], strict=False)
    rises = [Rise(*pair) for pair in pairs if pair[3] - pair[2] >= least]
    return max(rises, key=lambda rise: (rise.after - rise.before) / (rise.end - rise.start), default=None)
