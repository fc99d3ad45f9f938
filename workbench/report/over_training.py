"""The report's section on a run over training."""

from __future__ import annotations

from workbench import figures
from workbench.inspection.over_training import Timeline
from workbench.report.sections import Section


def timeline_section(timeline: Timeline) -> Section:
    """The report's section on a run over training: its title, what it shows and does not, its figures."""
    drawn = [figures.timeline(timeline, name) for name in timeline.measured if name != "entropy"]
    if "entropy" in timeline.measured:
        drawn += figures.by_layer_over_training({timeline.name: timeline.measured["entropy"]}, {})
    text = (
        f"The same sequences at each of {len(timeline.steps)} checkpoints of one run (seed "
        f"{timeline.run.config.seed}), from step {timeline.steps[0]:,}; bands are 95 % intervals over sequences, not "
        "over seeds. Measures that change together need not be cause and effect."
    )
    if timeline.head is not None:
        text += " Attention is that of layer {}, head {}, which is best at the end.".format(*timeline.head)
    return Section(f"Over training: {timeline.name}", text, drawn)
