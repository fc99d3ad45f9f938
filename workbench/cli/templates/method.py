"""The method `template_name`: an example that works; lines marked ← are its own, and to be changed."""

from workbench.benchmark.questions import Answer, Asks
from workbench.circuits import activation_patching


def template_name(question):
    """Activation patching of heads, called where every pair agrees in sign. ←"""
    if question.asks is not Asks.NODES:  # ← it has no answer to other questions, which is said and costs nothing
        return None
    effects = activation_patching(question.pairs, "head").values  # ← [layer, head, pair]
    scores = dict.fromkeys(question.candidates, 0.0)  # of every candidate, larger in size where it is surer
    calls = {}  # of those that it is sure of, whether right answers rest on them
    for layer, heads in enumerate(effects):  # ←
        for head, of_pairs in enumerate(heads):
            scores[f"a{layer}.h{head}"] = of_pairs.mean()
            calls[f"a{layer}.h{head}"] = bool((of_pairs > 1e-6).all() or (of_pairs < -1e-6).all())
    return Answer(scores=scores, calls=calls)


METHODS = {"template_name": template_name}  # a method is a function from a Question to an Answer, or None
