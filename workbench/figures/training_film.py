"""One input through training: its canvas at every checkpoint, in one drawing that a page moves through by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from workbench.figures.canvas import canvas
from workbench.figures.drawing import Drawing
from workbench.figures.token_page import answer_rows
from workbench.inspection import see
from workbench.runs import Run
from workbench.tasks import Batch

MOST = 40  # checkpoints in one drawing


def film_steps(steps: Sequence[int]) -> list[int]:
    """Of many checkpoints at most `MOST`, evenly spaced, the first and the last among them."""
    if len(steps) <= MOST:
        return list(steps)
    return [steps[round(i * (len(steps) - 1) / (MOST - 1))] for i in range(MOST)]


def training_film(
    run: Run,
    batch: Batch,
    steps: Sequence[int],
    *,
    layer: int,
    head: int,
    which: str = "pattern",
    start: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Drawing:
    """The canvas of one input at each of some checkpoints; without a script it shows the last of them.

    Args:
        run: with these checkpoints; the step of its latest weights is one too.
        batch: the input, a batch of one.
        steps: the training steps of the checkpoints, in order (see `film_steps`).
        layer, head, which, start: as for `figures.canvas`, the same in all.
        progress: is told the share that is drawn, after each.

    Returns:
        A drawing whose `data` has `frames`, one SVG for each step, and `labels`: the step, and how many answers are
        right there.

    Raises:
        ValueError: if no step is given, the run has no such checkpoint, or as `figures.canvas` does.
    """
    if not steps:
        raise ValueError("a film needs the training step of one checkpoint at least, and got none")
    frames, labels = [], []
    for done, step in enumerate(steps, 1):
        seen = see(run, batch, step=None if step == run.step() else step)
        frames.append(canvas(seen, layer=layer, head=head, which=which, start=start))
        asked = [right for right in answer_rows(seen)[0].right if right is not None]
        labels.append(f"step {step:,}: {sum(asked)} of {len(asked)} answers right")
        if progress is not None:
            progress(done / len(steps))
    data = {"frames": [one.svg() for one in frames], "labels": labels}
    says = f"{run.name} at {len(steps)} training steps, {steps[0]:,} to {steps[-1]:,}"
    return replace(frames[-1], subtitle=says, data=data)
