"""What every method is held against: chance, and the size of what is written."""

from __future__ import annotations

import torch

from workbench.benchmark.questions import Answer, Asks, Question
from workbench.circuits import Graph
from workbench.circuits.alignment import random_subspace
from workbench.circuits.rewired import writes
from workbench.util.seeds import generator


def at_random(question: Question) -> Answer:
    """A random order, calls by a coin, and a random direction."""
    draw = generator(question.seed, "random", question.asks, question.label)
    names = question.candidates
    if question.asks is Asks.WHERE:
        width = question.run.decoder.config.d_model
        return Answer(bases={name: random_subspace(width, 1, draw).float() for name in names})
    scores, coins = torch.rand(2, len(names), generator=draw).tolist()
    calls = {name: coin < 0.5 for name, coin in zip(names, coins, strict=True)}
    return Answer(scores=dict(zip(names, scores, strict=True)), calls=calls)


@torch.no_grad()
def magnitude(question: Question) -> Answer | None:
    """The mean norm of what is written, whatever it says; an edge has its writer's."""
    if question.asks not in (Asks.EDGES, Asks.NODES):
        return None
    graph = Graph.of(question.pairs.model)
    sizes = writes(question.pairs, question.pairs.pairs.clean.tokens).norm(dim=-1).mean((1, 2)).tolist()
    by_writer = dict(zip(graph.writers, sizes, strict=True))
    return Answer(scores={name: by_writer[name.split("->")[0]] for name in question.candidates})
