"""The phases of representation collapse over a run's checkpoints: RankMe, α-ReQ, and whether there are three."""

from __future__ import annotations

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.panels import code
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import Panel, folded
from workbench.app.state import Opened
from workbench.inspection.collapse_phases import rank_over_training
from workbench.judgement.collapse_phases import phases
from workbench.judgement.words.figures import collapsed
from workbench.measurement import Measurement

N, SEED = 256, 0
SAYS = (
    "In the pretraining of language models RankMe falls, rises and falls again (arXiv 2509.23024), which a smaller "
    "model on one task need not do. The threshold for three phases is ours. One run: another seed can say otherwise."
)


@folded("Phases of collapse", "train-collapse")
def collapse(p: Panel, opened: Opened, step: int) -> None:
    """RankMe over training, measured on request.

    Args:
        opened: the run, which has checkpoints.
        step: the one to mark.
    """
    run = opened.run
    measured: Measurement | None = awaited(
        ("rank over training", str(run.path), run.version),
        lambda job: rank_over_training(run, n=N, seed=SEED, progress=job.tell),
        "the rank at every checkpoint",
        "The rank over training cannot be measured here",
    )
    if measured is None:
        return
    ranks = code.assign(
        "ranks", rank_over_training, code.run(opened), n=N, seed=SEED, computed_by=lambda run, **_: measured
    )
    try:
        found: str | None = collapsed(phases(measured))
    except ValueError as error:  # too few checkpoints
        found = plain(str(error))
    figure = code.call(figures.mark_step, code.call(figures.rank_over_training, ranks), step)
    p.show(figure, {"rank-over-training": ranks}, f"{measured.caption} {SAYS}", verdict=found)
