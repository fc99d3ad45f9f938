"""Progress measures of grokking over a run's checkpoints, where the task is modular addition."""

from __future__ import annotations

from workbench import figures
from workbench.app.panels import code
from workbench.app.panels.background import Job
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import panel
from workbench.app.state import Opened
from workbench.inspection.progress_measures import other_frequencies, progress_measures
from workbench.judgement.grokking import half_way
from workbench.judgement.words.figures import early_rise_in_words, half_way_in_words
from workbench.measurement import Measurement
from workbench.tasks.modular_addition import ModularAddition

SAYS = (
    "Dotted losses: the same of as many other frequencies, the control. Which of two curves moves first is of this "
    "run and these checkpoints alone: another seed, or checkpoints closer together, can say otherwise."
)


def grokking(opened: Opened, step: int) -> None:
    """Restricted and excluded loss beside accuracy; nothing where the task is another.

    Args:
        opened: the run, which has checkpoints.
        step: the one to mark.
    """
    if not isinstance(opened.subject.task, ModularAddition):
        return
    with panel("Progress measures of grokking", "train-grokking", folded=True) as p:
        if not p.open:
            return

        def measure(job: Job) -> tuple[Measurement, Measurement]:
            found = progress_measures(opened.run, progress=lambda share: job.tell(share / 2))
            frequencies = other_frequencies(found)
            control = progress_measures(
                opened.run, frequencies=frequencies, progress=lambda share: job.tell(0.5 + share / 2)
            )
            return found, control

        key = ("progress measures", str(opened.run.path), opened.run.version)
        both = awaited(
            key, measure, "the losses of all questions at every checkpoint", "Progress measures cannot be told here"
        )
        if both is None:
            return
        found, control = both
        run = code.run(opened)
        own = code.assign("measured", progress_measures, run, computed_by=lambda run: found)
        others = code.call(other_frequencies, own)
        beside = code.assign(
            "control", progress_measures, run, frequencies=others, computed_by=lambda run, frequencies: control
        )
        figure = code.call(figures.mark_step, code.call(figures.progress_measures, own, beside), step)
        verdict = f"{early_rise_in_words(found, control)} {half_way_in_words(found, half_way(found))}"
        p.show(figure, {"progress-measures": own, "control": beside}, f"{found.caption} {SAYS}", verdict=verdict)
