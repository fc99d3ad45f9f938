"""Parent read (`template_name`): one head attends most to the position that a gold edge leads to. ←

Does not show: what is read there. ← Controls: the edges of another example (`mismatched`), re-initialised models
(`untrained`). Causal test: without that edge in the head the answer is lost; without an edge to another position it
stays. Lines marked ← are the example's own, and to be changed.
"""

import sys

from workbench.instruments.attention.attention_graph import by_head, needs, why_not
from workbench.interventions import cut_test

CONTROLS = ("mismatched", "untrained")  # ←


def score(capture):
    """Share of queries whose gold key gets more attention than any other: dims `layer`, `head`, `example`. ←"""
    gold = capture.truth.adjacency(*capture.batch.tokens.shape, hop=1)[:, None]  # ← [batch, 1, query, key]

    def share(pattern):  # [batch, head, query, key] of one layer
        right = gold.expand_as(pattern).gather(-1, pattern.argmax(-1, keepdim=True))[..., 0]  # ←
        return right.sum(-1) / gold.any(-1).sum(-1)  # ←

    caption = "Share of queries of which a key at a gold edge gets more of the head's row than any other position."  # ←
    return by_head(capture, share, name="Parent read", units="share", caption=caption)  # ←


def causal(model, subject, batch, generator, *, heads=None):
    """What becomes of one right answer of each example when an edge is cut: dims `edit`, `outcome`, `example`."""
    gold = subject.task.truth(batch.tokens).adjacency(*batch.tokens.shape, hop=1)  # ←
    caption = "Whether an answer is lost without its gold edge (claimed), or without another edge (elsewhere)."  # ←
    return cut_test(model, subject, batch, gold, generator, heads=heads, name="Parent read: cut", caption=caption)


MECHANISMS = {"template_name": sys.modules[__name__]}  # a mechanism is a module with these functions
