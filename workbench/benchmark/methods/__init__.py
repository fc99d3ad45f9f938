"""Methods that look for what subjects hide. Each is a function from a `Question` to an `Answer`.

    def mine(question: Question) -> Answer | None:
        '''One sentence that says what it does.'''
        if question.asks is not Asks.EDGES:
            return None                                   # it has no answer to this: that is said, and costs nothing
        scores = my_scores(question.pairs)                # a `circuits.Comparison`
        return Answer(scores=dict(zip(question.candidates, scores, strict=True)))

A new method is one function in the file of its family and one entry here, or the entry alone where it differs from
others by what is measured; one of a stranger's, an entry point of the
group `workbench.methods` or a plugin's dict `METHODS` (`workbench new method NAME`).
"""

from __future__ import annotations

from workbench import circuits
from workbench.benchmark.methods import chance, edges, labels, nodes, places
from workbench.benchmark.questions import Asks
from workbench.benchmark.scoring import Method
from workbench.judgement.decodable import UNTRAINED

METHODS: dict[str, Method] = {
    "eap": edges.scored("Edge attribution patching, from one gradient.", circuits.eap),
    "eap_ig": edges.scored("Edge attribution patching with integrated gradients, from five.", circuits.eap_ig),
    "gim": edges.scored(
        "Edge attribution patching with gradient interaction modifications, from one gradient.",
        circuits.gim,
        effects=False,
    ),
    "path_patching": edges.scored(
        "Path patching: each edge alone carries what its writer wrote in the other run.", circuits.path_patching
    ),
    "edge_cutting": edges.edge_cutting,
    "transformer_lens_eap": edges.transformer_lens_eap,
    "activation_patching": nodes.patched(
        "Activation patching: each head or MLP alone writes what it wrote in the other run.",
        exact=True,
    ),
    "attribution_patching": nodes.patched(
        "Attribution patching: the same to first order, from one gradient.", exact=False
    ),
    "direct_attribution": nodes.direct_attribution,
    "magnitude": chance.magnitude,
    "random": chance.at_random,
    "probe": labels.probed(
        "A logistic probe clearly above the most frequent label; what it decodes is said to be used, as is often done.",
        asks=(Asks.DECODABLE, Asks.USED),
    ),
    "probe_mlp": labels.probed(
        "A probe with a hidden layer clearly above the most frequent label; it says nothing of use.", kind="mlp"
    ),
    "nearest_mean": labels.probed(
        "The value whose mean is nearest, clearly more often right than the most frequent one; it says nothing of use.",
        kind="nearest_mean",
    ),
    "probe_untrained": labels.probed(
        "A logistic probe clearly above the same in re-initialised models; it says nothing of use.", beside=UNTRAINED
    ),
    "description_length": labels.description_length,
    "probe_controlled": labels.probe_controlled,
    "erasure": labels.erasure,
    "causal_test": labels.causal_test,
    "mean_difference": places.mean_difference,
    "pca": places.pca,
    "das": places.das,
}

__all__ = ["METHODS", "Method"]
