"""The claims of the papers, each a file here: TOML, or Python where something is computed, drawn or fine-tuned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workbench.studies.from_file import study_from_file
from workbench.studies.papers import data_statistics, finetuned_multiplication, finetuned_perplexity, sorting_by_hand
from workbench.studies.papers.drawn import accuracy_and_operations, hops_by_layers
from workbench.studies.study import Study

_IN_PYTHON = {
    "data-statistics": data_statistics.STUDY,
    "finetuned-multiplication": finetuned_multiplication.STUDY,
    "finetuned-perplexity": finetuned_perplexity.STUDY,
    "sorting-by-hand": sorting_by_hand.STUDY,
}
_DRAWN = {"chain-hops": hops_by_layers, "multiplication-digits": accuracy_and_operations}
_IN_ORDER = (
    "chain-layers",
    "chain-hops",
    "chain-gamma",
    "auxiliary-targets",
    "property-heads",
    "boxes-depth",
    "boxes-default",
    "box-moves",
    "text-perplexity",
    "finetuned-perplexity",
    "sorting-by-hand",
    "sorting-lengths",
    "sorting-tempered",
    "sorting-repeats",
    "sorting-data",
    "sorting-depth",
    "sorting-width",
    "sorting-hints",
    "sorting-bases",
    "sorting-mechanisms",
    "increment-lengths",
    "multiplication-methods",
    "multiplication-larger",
    "multiplication-digits",
    "multiplication-collapse",
    "multiplication-collapse-larger",
    "multiplication-loss",
    "multiplication-pauses",
    "finetuned-multiplication",
    "arithmetic-methods",
    "lis-methods",
    "data-statistics",
    "state-tracking",
)

STUDIES: dict[str, Study] = {}
"""Every one by its name, in the order in which they are shown."""

for _name in _IN_ORDER:
    if _name in _IN_PYTHON:
        STUDIES[_name] = _IN_PYTHON[_name]
        continue
    _study = study_from_file(Path(__file__).with_name(f"{_name.replace('-', '_')}.toml"), STUDIES)
    STUDIES[_name] = replace(_study, file="", toml="", draw=_DRAWN.get(_name, _study.draw))
