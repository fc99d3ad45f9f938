"""What can be decoded from a residual, and how much to believe it.

found = probe(run, "minimum", positions="delimiter")       # every layer, beside its baselines and controls
verdict(found.select(point="blocks.0.hook_resid_mid"))     # 'decodable: 100% against 66% for …'
causal_test(run, "minimum", point="blocks.0.hook_resid_mid", positions="delimiter")    # and is it used?
ask(run, "minimum")                                        # both, as one of `PRESETS`
"""

from workbench.probes.causal import causal_test
from workbench.probes.conditions import CONDITIONS
from workbench.probes.decoding import KINDS
from workbench.probes.description_length import Description, description_length
from workbench.probes.finding import Answer, Finding, Standing
from workbench.probes.judgement import Judgement, Worth, judge, verdict
from workbench.probes.labels import label_names, labels
from workbench.probes.positions import RULES, rules_for
from workbench.probes.presets import PRESETS, applicable, ask
from workbench.probes.probing import probe, probe_capture, selectivity
from workbench.probes.use import Told, Use

__all__ = [
    "CONDITIONS",
    "KINDS",
    "PRESETS",
    "RULES",
    "Answer",
    "Description",
    "Finding",
    "Judgement",
    "Standing",
    "Told",
    "Use",
    "Worth",
    "applicable",
    "ask",
    "causal_test",
    "description_length",
    "judge",
    "label_names",
    "labels",
    "probe",
    "probe_capture",
    "rules_for",
    "selectivity",
    "verdict",
]
