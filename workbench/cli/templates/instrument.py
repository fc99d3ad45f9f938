"""Attention distance (`template_name`): how many positions each head looks back, on average. ←

Does not show: what is read there. ← Controls: re-initialised models (`untrained`), attention drawn at random
(`random_graph`). ← Lines marked so are the example's own, and to be changed.
"""

import sys

import torch

from workbench.instruments.attention.attention_graph import by_head, needs

CONTROLS = ("untrained", "random_graph")  # ←


def why_not(subject):  # why this cannot be measured of a model, in one line; None if it can
    return None  # ←


def measure(capture):
    """Mean distance from query to key, weighted by the pattern: dims `layer`, `head`, `example`. ←"""
    position = torch.arange(capture.batch.tokens.shape[1])
    distance = position[:, None] - position  # ←

    def mean(pattern):  # [batch, head, query, key] of one layer
        return (pattern * distance).sum(-1).mean(-1)  # ←

    caption = "Mean number of positions between a query and what it attends to, whatever is read there."  # ←
    return by_head(capture, mean, name="Attention distance", units="positions", caption=caption)  # ←


INSTRUMENTS = {"template_name": sys.modules[__name__]}  # an instrument is a module with these functions
