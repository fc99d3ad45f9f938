"""Methods that look for what subjects hide. Each is a function from a `Question` to an `Answer`.

    def mine(question: Question) -> Answer | None:
        '''One sentence that says what it does.'''
        if question.asks is not Asks.EDGES:
            return None                                   # it has no answer to this: that is said, and costs nothing
        scores = my_scores(question.pairs)                # a `circuits.Comparison`
        return Answer(scores=dict(zip(question.candidates, scores, strict=True)))

A new method is one function in the file of its family and one entry here; one of a stranger's, an entry point of the
group `workbench.methods` or a plugin's dict `METHODS` (`workbench new method NAME`).
"""

from __future__ import annotations

from workbench.benchmark.methods import chance, edges, labels, nodes, places
from workbench.benchmark.scoring import Method

METHODS: dict[str, Method] = {
    "eap": edges.eap,
    "eap_ig": edges.eap_ig,
    "gim": edges.gim,
    "path_patching": edges.path_patching,
    "edge_cutting": edges.edge_cutting,
    "transformer_lens_eap": edges.transformer_lens_eap,
    "activation_patching": nodes.activation_patching,
    "attribution_patching": nodes.attribution_patching,
    "direct_attribution": nodes.direct_attribution,
    "magnitude": chance.magnitude,
    "random": chance.at_random,
    "probe": labels.probe_alone,
    "probe_mlp": labels.probe_mlp,
    "nearest_mean": labels.nearest_mean,
    "probe_untrained": labels.probe_untrained,
    "description_length": labels.description_length,
    "probe_controlled": labels.probe_controlled,
    "erasure": labels.erasure,
    "causal_test": labels.causal_test,
    "mean_difference": places.mean_difference,
    "pca": places.pca,
    "das": places.das,
}

__all__ = ["METHODS", "Method"]
