"""What can be decoded from a residual, and how much to believe it.

found = probe(run, "minimum", positions="delimiter")       # every layer, beside its baselines and controls
verdict(found.select(point="blocks.0.hook_resid_mid"))     # 'decodable: 100% against 66% for …'
causal_test(run, "minimum", point="blocks.0.hook_resid_mid", positions="delimiter")    # and is it used?
ask(run, "minimum")                                        # both, as one of `PRESETS`
"""

from probes.causal import causal_test
from probes.conditions import CONDITIONS
from probes.decoding import KINDS
from probes.description import Description, description_length
from probes.labels import label_names, labels
from probes.positions import RULES, rules_for
from probes.presets import PRESETS, Answer, Finding, applicable, ask
from probes.probing import probe, probe_capture, selectivity, verdict
from probes.use import Use

__all__ = [
    "CONDITIONS",
    "KINDS",
    "PRESETS",
    "RULES",
    "Answer",
    "Description",
    "Finding",
    "Use",
    "applicable",
    "ask",
    "causal_test",
    "description_length",
    "label_names",
    "labels",
    "probe",
    "probe_capture",
    "rules_for",
    "selectivity",
    "verdict",
]
