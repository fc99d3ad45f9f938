"""What a method is asked of a subject, what it answers, and what is right: the truth stays on this side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, cast

import torch
from torch import Tensor

from workbench.benchmark.subjects import Effect, Label, Planted, PlantedTruth, make
from workbench.benchmark.subjects.symbols import Symbols
from workbench.circuits import Comparison, Graph, node_scores, path_patching
from workbench.circuits.hypotheses import Hypothesis, Interchange, at_first, interchanges
from workbench.circuits.rewired import rewired_logits, writes
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.models import Decoder
from workbench.tasks import Batch, Task, Truth
from workbench.tasks.labels import label_names
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

PAIRS = 32  # that a method gets
TRUE_PAIRS = 512  # from which the true effects are: their error is a quarter of that of a mean over `PAIRS`
TESTED = 64  # of these, on which circuits are run
INTERCHANGES = 400  # sequences drawn to find a variable on, and as many others to test it on
NOTHING = "sum"  # a label that no subject holds anywhere
NULLS = {"re-initialised": untrained, "weights shuffled": shuffled}
"""What is made of a subject's model so that it knows nothing -> how."""
LABELS = "labels shuffled"  # the model is as it was, and its task's labels tell nothing of the tokens
START = "blocks.0.hook_resid_pre"  # where every position holds its own token and place alone
SAME = 1e-9  # logits in double precision that are no further apart are equal


class Asks(StrEnum):
    """A kind of question."""

    EDGES = "edges"  # which edges carry what the answers rest on?
    NODES = "nodes"  # which heads and MLPs do the answers rest on, those that stand in for each other among them?
    DECODABLE = "decodable"  # at which points does the residual hold the label, beyond what token and position tell?
    USED = "used"  # at which points do the answers rest on the label?
    WHERE = "where"  # in which subspace of each point does the variable live, so that its exchange is obeyed?


@dataclass(frozen=True)
class Question:
    """What a method gets.

    Attributes:
        asks: the kind of question.
        candidates: what is asked about: names of edges or nodes as in `circuits.Graph`, or hook points.
        run: stands for a run: `run.task()` draws sequences with their labels, `run.model()` is the decoder and
            `run.hooked()` a bridge of it. Its truth is empty.
        seed: of all that the method draws.
        comparison: of edges and nodes, the hooked model on minimal pairs.
        label: a label of the task's truth, else empty.
        rows: of `where`, exchanges of the variable with the answers that must follow, to find a subspace on.
    """

    asks: Asks
    candidates: tuple[str, ...]
    run: Planted
    seed: int
    comparison: Comparison | None = None
    label: str = ""
    rows: Interchange | None = None

    @property
    def pairs(self) -> Comparison:
        """The comparison of a question that has one."""
        assert self.comparison is not None, "only edges and nodes are asked about on pairs"
        return self.comparison


@dataclass(frozen=True)
class Answer:
    """What a method answers. Whatever is left out it does not say, which costs it nothing but the credit.

    Attributes:
        scores: of every candidate, or of none; the larger in size, the surer that it is one that is asked for.
        calls: of some candidates, whether it is; None where the method only ranks.
        intervals: of some edges or nodes, 95 % of their effect: the mean change of the logit difference when the edge
            alone, or the node, carries in the corrupted run what it wrote in the clean one.
        bases: of `where`, hook point -> an orthonormal basis of the subspace, `[d_model, rank]`, of every candidate.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, bool] | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    bases: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Posed:
    """A question with what is right.

    Attributes:
        question: what the method gets.
        true: the candidates that are asked for.
        carrying: of edges, those of them over which the pairs' difference comes to the answer.
        effects: of edges and nodes, the true effect by name; of a null model none.
        comparison: of edges, other pairs to run circuits on.
        test: of `where`, other exchanges to test subspaces on.
        null: by what nothing is true, else empty.
    """

    question: Question
    true: frozenset[str]
    carrying: frozenset[str] = frozenset()
    effects: Mapping[str, float] = field(default_factory=dict)
    comparison: Comparison | None = None
    test: Interchange | None = None
    null: str = ""


def check_seed(seed: int) -> None:
    """Raise ValueError unless subjects can be drawn from a seed."""
    if not 0 <= seed < 2**48:
        raise ValueError("a seed is a whole number from 0 to 2^48")


def posed(name: str, seed: int, null: str = "", *, scored: bool = True) -> list[Posed]:
    """All questions that can be asked of a subject, with what is true.

    Args:
        name, seed: as for `subjects.make`.
        null: one of `NULLS`, `LABELS`, or empty for the subject itself.
        scored: of the subject itself, with all by which answers are scored, which takes long, and with the questions
            about subspaces; otherwise those about edges, nodes and labels alone, as of nulls.

    Raises:
        ValueError: if there is no such subject or null.
    """
    if scored and not null:
        return list(_whole(name, seed))
    planted = make(name, seed)
    if not null:
        return [*_on_pairs(planted, seed), *_of_labels(planted)]
    if null == LABELS:  # which edges and nodes do not hang on
        asked = list(_of_labels(replace(planted, made_for=_with_labels_dealt(planted.made_for, seed))))
    else:  # what a model holds that knows nothing is not known
        model = lookup(NULLS, null, "null")(planted.decoder, generator(seed, "null", null))
        planted = replace(planted, decoder=cast(Decoder, model))
        parts = [*_on_pairs(planted, seed), *_of_labels(planted)]
        asked = [part for part in parts if part.question.asks is not Asks.DECODABLE]
    return [replace(part, true=frozenset(), null=null) for part in asked]


def _with_labels_dealt(task: Task, seed: int) -> Task:
    """The same task, whose labels are dealt anew among all places of a batch that have one."""

    def truth(self: Task, tokens: Tensor) -> Truth:
        found, order, dealt = task.truth(tokens), generator(seed, "labels dealt"), {}
        for name, label in found.labels.items():
            values = label[label >= 0]
            dealt[name] = label.masked_scatter(label >= 0, values[torch.randperm(len(values), generator=order)])
        return replace(found, labels=dealt)

    def draw(self: Task, *given: Any, **how: Any) -> Batch:
        return task.draw(*given, **how)  # its answers are right

    of: Callable[..., Task] = type(type(task).__name__, (type(task),), {"truth": truth, "draw": draw})
    return of(**task.model_dump())


@lru_cache(maxsize=16)
def _whole(name: str, seed: int) -> tuple[Posed, ...]:
    exact = make(name, seed, torch.float64)
    pairs = exact.task().minimal_pairs(TRUE_PAIRS, generator(seed, "true effects"))
    comparison = Comparison(exact.hooked(), pairs)
    of_edges, of_nodes = path_patching(comparison), node_scores(comparison, exact=True, by_position=False)
    effects: dict[Asks, dict[str, float]] = {  # the exact means
        Asks.EDGES: dict(zip(of_edges.coords["edge"], of_edges.values.mean(-1).tolist(), strict=True)),
        Asks.NODES: dict(zip(of_nodes.coords["node"], of_nodes.values.mean(-1).tolist(), strict=True)),
    }
    carrying = frozenset(carry(exact, comparison.of(pairs[:PAIRS])))
    parts = [
        replace(
            part,
            effects=effects[part.question.asks],
            carrying=carrying,
            comparison=part.question.pairs.of(pairs[:TESTED]),
        )
        if part.question.asks in effects
        else part
        for part in posed(name, seed, scored=False)
    ]
    return (*parts, *_where(make(name, seed), seed))


def _hidden(planted: Planted) -> int:
    """A seed for a method, of which neither the subject's nor that of another subject can be told."""
    assert planted.seed is not None
    return int(torch.randint(2**31, (), generator=generator(planted.seed, "question", planted.name)))


def blind(planted: Planted) -> Planted:
    """A subject without its name, its seed and its truth."""
    return replace(planted, name="a model", seed=None, truth=PlantedTruth(), about="")


def _on_pairs(planted: Planted, seed: int) -> Iterator[Posed]:
    """Which edges, and which nodes."""
    comparison = Comparison(planted.hooked(), planted.task().minimal_pairs(PAIRS, generator(seed, "pairs")))
    graph, run = Graph.of(comparison.model), blind(planted)
    edges = {edge for edge, effect in planted.truth.edges.items() if effect is not Effect.IDLE}
    nodes = {edge.split("->")[0] for edge in edges} & set(graph.writers[1:])
    for asks, candidates, true in ((Asks.EDGES, graph.names, edges), (Asks.NODES, graph.writers[1:], nodes)):
        yield Posed(Question(asks, candidates, run, _hidden(planted), comparison), frozenset(true))


def carry(planted: Planted, comparison: Comparison) -> list[str]:
    """The edges over which what differs between the runs of a pair comes to the answer, of those that do anything.

    Such an edge changes the logits asked for when it alone carries what the corrupted run wrote, while all else is as
    in the clean run, or while the nodes that would stand in for it write what they wrote in the corrupted run.
    """
    graph, clean, asked = Graph.of(comparison.model), comparison.pairs.clean.tokens, comparison.pairs.asked
    corrupted = writes(comparison, comparison.pairs.corrupted.tokens)
    edges = [edge for edge, effect in planted.truth.edges.items() if effect is not Effect.IDLE]

    def logits(changed: set[str]) -> Tensor:
        keep = graph.edges & ~graph.mask(sorted(changed))
        return rewired_logits(comparison, clean, keep, corrupted)[asked]

    found = []
    for edge in edges:
        ends = set(edge.split("<")[0].split("->"))
        spares = [set(group) - ends for group in planted.truth.needed if len(group) > 1 and ends & set(group)]
        contexts = [{other for other in edges if other.split("->")[0] in rest} for rest in spares]
        if any(bool(((logits(c | {edge}) - logits(c)).abs() > SAME).any()) for c in [set(), *contexts]):
            found.append(edge)
    return found


def _of_labels(planted: Planted) -> Iterator[Posed]:
    """At which points each label is held, and used; left out is where this is not known."""
    run, points = blind(planted), from_embedding(planted.subject)
    held = planted.truth.labels
    names = [*(each.label for each in held), *(name for name in label_names(planted.task()) if name == NOTHING)]
    for label in dict.fromkeys(names if held else ()):
        local = any(each.local for each in held if each.label == label)
        by_point: dict[str, list[Label]] = {point: [] for point in points}
        for each in held:
            if each.label == label:
                by_point[each.point].append(each)
        known = [point for point in points if by_point[point] or label == NOTHING or (point == START and not local)]
        for asks in (Asks.DECODABLE, Asks.USED):
            true = {p for p in known if any(not e.local if asks is Asks.DECODABLE else e.used for e in by_point[p])}
            yield Posed(Question(asks, tuple(known), run, _hidden(planted), label=label), frozenset(true))


def _where(planted: Planted, seed: int) -> Iterator[Posed]:
    """In which subspace a variable lives whose exchange has a known outcome."""
    task = planted.task()
    for part in _of_labels(planted):
        label = part.question.label
        if part.question.asks is not Asks.USED or not part.true or not isinstance(task, Symbols):
            continue
        hypothesis = Hypothesis(f"the last position holds {label}", at_first(label), partial(_follows, label=label))
        fit, test = (
            interchanges(task, hypothesis, INTERCHANGES, generator(seed, label, split), split=split)
            for split in ("train", "test")
        )
        yield Posed(replace(part.question, asks=Asks.WHERE, rows=fit), part.true, test=test)


def _follows(task: Any, base: Tensor, source: Tensor, label: str) -> Tensor:
    """The answer of each base once the label has the source's value."""
    own, other = (task.truth(tokens).labels for tokens in (base, source))
    if task.asks == "differ" and label in ("first", "second"):
        kept = "second" if label == "first" else "first"
        return (own[kept][:, -1] != other[label][:, -1]).long()
    return other[label][:, -1]
