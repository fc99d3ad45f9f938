"""What can be decoded from a residual, and how much to believe it.

accuracy = probe(run, "minimum", positions="delimiter")    # every layer, beside its baselines and controls
verdict(accuracy.select(point="blocks.0.hook_resid_mid"))  # 'decodable: 100% [98, 100] of 301 rows, against 66% for …'
causal_test(run, "minimum", point="blocks.0.hook_resid_mid", positions="delimiter")    # and is it used?
ask(run, "minimum")                                        # both, as one of `PRESETS`

labels.py, positions.py        what is decoded, and where
probing.py                     probe a run: what is decoded at every point, beside its baselines
fitting.py, probe_kinds.py     how a probe is fitted and tested, and the kinds there are
probe_models.py                what a fitted probe gives
baselines_and_controls.py      what a probe is compared with
causal_test.py                 is it used?
label_directions.py            LEACE, which finds what the causal test edits
erase_steer_interchange.py     the edits of the causal test
causal_result.py               what the causal test measures
description_length.py          how easily is it decoded?
presets.py, answer.py          questions that are ready to be asked, and their answers

What any of it shows is decided in `workbench.judgement` (`decodable`, `used`, `probed`) and said in its `words`.
"""

from workbench.judgement.decodable import Decodable, Worth, judge
from workbench.judgement.probed import Finding, Status
from workbench.judgement.used import Conclusion, Used
from workbench.probes.answer import Answer
from workbench.probes.baselines_and_controls import CONDITIONS
from workbench.probes.causal_result import Use
from workbench.probes.causal_test import causal_test
from workbench.probes.description_length import Description, description_length
from workbench.probes.fitting import KINDS
from workbench.probes.positions import RULES, rules_for
from workbench.probes.presets import PRESETS, applicable, ask
from workbench.probes.probing import gain, probe, probe_capture, selectivity, verdict
from workbench.tasks.labels import label_names, labels

__all__ = [
    "CONDITIONS",
    "KINDS",
    "PRESETS",
    "RULES",
    "Answer",
    "Conclusion",
    "Decodable",
    "Description",
    "Finding",
    "Status",
    "Use",
    "Used",
    "Worth",
    "applicable",
    "ask",
    "causal_test",
    "description_length",
    "gain",
    "judge",
    "label_names",
    "labels",
    "probe",
    "probe_capture",
    "rules_for",
    "selectivity",
    "verdict",
]
