"""What an answer is worth: every score of the benchmark, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from workbench.benchmark.questions import Answer, Asks, Posed, Question
from workbench.circuits import Circuit, Graph, faithfulness, interchange_accuracy
from workbench.circuits.alignment import arbitrary
from workbench.util.seeds import generator

LEVEL = 1e-6  # of the largest score: what is closer differs by rounding, and ties
ORDERS = 8  # in which tied edges are taken into a circuit


@dataclass(frozen=True)
class Score:
    """A column of the table.

    Attributes:
        asks: the question that it is of.
        words: what it is, as a title.
        about: what it says in a sentence.
        chance: what a method at random reaches; None where that is not one number.
        best: what the best reaches.
    """

    asks: Asks
    words: str
    about: str
    chance: float | None
    best: float


_Column = tuple[str, str, float | None, float]  # words, about, chance and best of a `Score`
_RANKED: dict[str, _Column] = {
    "auroc": ("AUROC", "How often a true {} is ranked above another; a tie counts half.", 0.5, 1),
    "precision": ("average precision", "The precision, mean over the true {}s; of ties, that of them all.", None, 1),
    "tied": ("tied", "The share of true {}s that tie with one that is not.", None, 0),
    "coverage": (
        "coverage",
        "The share of the method's own 95% intervals that hold the true effect, where there is one or it says so.",
        None,
        0.95,
    ),
    "width": ("width", "The median width of these intervals, by the largest true effect.", None, 0),
}
_CALLED: dict[str, _Column] = {
    "power": ("power", "The share of true {}s that it calls true.", None, 1),
    "false_alarms": ("false alarms", "The share of other {}s that it calls true.", None, 0),
    "silent": ("says nothing", "The share of {}s of which it says neither.", None, 0),
}
_IN_NULLS: dict[str, _Column] = {
    "in_nulls": ("false alarms in nulls", "The share of {}s that it calls true in nulls, where none is.", None, 0)
}
_OF_EDGES: dict[str, _Column] = {
    "carrying": (
        "AUROC, carrying",
        "The same of the edges over which what differs in a pair reaches the answer, against those that do nothing.",
        0.5,
        1,
    ),
    "unfaithful": (
        "unfaithful",
        "How far the faithfulness of its best edges, as many as are true, is from that of the true ones.",
        None,
        0,
    ),
}
_OF_SUBSPACES: dict[str, _Column] = {
    "accuracy": (
        "obeyed where used",
        "How often the answer follows an exchange within the subspace, at points where the variable is used.",
        None,
        1,
    ),
    "elsewhere": ("obeyed elsewhere", "The same at points where it is not held, or held and not used.", None, 0),
    "arbitrary": (
        "arbitrary target obeyed",
        "The same where it is used, of a subspace sought for answers that follow from nothing: its control.",
        None,
        0,
    ),
}
SCORES: dict[str, Score] = {
    f"{asks}_{name}": Score(asks, words, about.format(what), chance, best)
    for asks, what, columns in (
        (Asks.EDGES, "edge", _RANKED | _CALLED | _OF_EDGES | _IN_NULLS),
        (Asks.NODES, "node", _RANKED | _CALLED | _IN_NULLS),
        (Asks.DECODABLE, "point", _CALLED | _IN_NULLS),
        (Asks.USED, "point", _CALLED | _IN_NULLS),
        (Asks.WHERE, "point", _OF_SUBSPACES),
    )
    for name, (words, about, chance, best) in columns.items()
}
"""Name -> what it is; what is not among the values of a row, its method does not say."""

Values = dict[str, float]
Method = Callable[[Question], Answer | None]


def score(posed: Posed, answer: Answer, again: Method) -> Values:
    """All scores of an answer.

    Args:
        posed: the question with what is right.
        answer: the method's.
        again: the method, which is asked once more where a control needs it.

    Raises:
        ValueError: if the answer is not of this question.
    """
    check(posed.question, answer)
    asks, true = posed.question.asks, posed.true
    names, found = posed.question.candidates, {}
    if answer.calls is not None:
        called = calls(answer.calls, names, true)
        found = {f"{asks}_{name}": value for name, value in called.items()}
    if posed.null:
        return {f"{asks}_in_nulls": found[f"{asks}_false_alarms"]} if found else {}
    if answer.scores and asks is not Asks.WHERE:
        found |= {f"{asks}_{name}": value for name, value in ranking(answer.scores, names, true).items()}
        if asks is Asks.EDGES:
            others = posed.carrying | (set(names) - true)
            found["edges_carrying"] = ranking(answer.scores, [n for n in names if n in others], posed.carrying)["auroc"]
            found["edges_unfaithful"] = unfaithful(posed, answer.scores)
    if answer.intervals:
        found |= {f"{asks}_{name}": value for name, value in covered(answer.intervals, posed.effects).items()}
    return found | (obeyed(posed, answer, again) if answer.bases else {})


def check(question: Question, answer: Answer) -> None:
    """Raise ValueError, in one line, if an answer is not of the form that `Answer` says, or of other candidates."""
    if not isinstance(answer, Answer):
        raise ValueError(f"a method returns an Answer, or None where it has none, not a {type(answer).__name__}")
    known = set(question.candidates)
    for part in ("scores", "calls", "intervals", "bases"):
        unknown = [name for name in getattr(answer, part) or () if name not in known]
        if unknown:
            raise ValueError(f"{part} name {unknown[0]!r}, which is not asked about")
    for part in ("scores", "bases"):
        missing = known - set(getattr(answer, part))
        if getattr(answer, part) and missing:
            raise ValueError(f"{part} are of every candidate or of none, and {min(missing)!r} has none")
    if not np.isfinite([*answer.scores.values()]).all():
        raise ValueError("scores are finite numbers")
    if any(not isinstance(call, bool | np.bool_) for call in (answer.calls or {}).values()):
        raise ValueError("calls are true or false; leave out what is undecided")
    if any(not low <= high for low, high in answer.intervals.values()):
        raise ValueError("an interval has two ends, the lower one first; leave out what is not known")
    for point, basis in answer.bases.items():
        apart = (basis.T @ basis - torch.eye(basis.shape[1]).to(basis)).abs().max() if basis.ndim == 2 else None
        if apart is None or not bool(apart < 1e-3):
            raise ValueError(f"the basis at {point} is not orthonormal, [d_model, rank]")


def ranking(scores: Mapping[str, float], names: Sequence[str], true: frozenset[str]) -> Values:
    """AUROC, average precision and the share of true ones that tie with others; nothing where all or none are true."""
    sizes = np.abs([scores[name] for name in names])
    level = np.round(sizes / (sizes.max() or 1.0) / LEVEL).astype(int)
    gold = np.array([name in true for name in names])
    if gold.all() or not gold.any():
        return dict.fromkeys(("auroc", "precision", "tied"), float("nan"))
    tied = float(np.isin(level[gold], level[~gold]).mean())
    auroc, precision = roc_auc_score(gold, level), average_precision_score(gold, level)
    return {"auroc": float(auroc), "precision": float(precision), "tied": tied}


def calls(given: Mapping[str, bool], names: Sequence[str], true: frozenset[str]) -> Values:
    """Power, false alarms, and the share of which nothing is said; NaN where there is nothing of the kind."""
    yes = {name for name, call in given.items() if call}
    other = set(names) - true
    return {
        "power": len(yes & true) / len(true) if true else float("nan"),
        "false_alarms": len(yes & other) / len(other) if other else float("nan"),
        "silent": 1 - len(given) / len(names),
    }


def covered(intervals: Mapping[str, tuple[float, float]], effects: Mapping[str, float]) -> Values:
    """The share of intervals that hold the true effect, and their median width by the largest true effect.

    What differs by rounding alone is equal. Left out is what has no effect and is said to have none: that is easy.
    """
    largest = max(map(abs, effects.values())) or 1.0
    slack = LEVEL * largest
    known = [
        (low, effects[name], high)
        for name, (low, high) in intervals.items()
        if max(abs(low), abs(high), abs(effects[name])) > slack
    ]
    if not known:
        return {}
    held = [low - slack <= effect <= high + slack for low, effect, high in known]
    widths = [(high - low) / largest for low, _, high in known]
    return {"coverage": float(np.mean(held)), "width": float(np.median(widths))}


def unfaithful(posed: Posed, scores: Mapping[str, float]) -> float:
    """|F − F*|, F of the method's best edges, as many as there are true ones, F* of the true ones.

    Tied edges are taken in `ORDERS` random orders, of which the mean counts.
    """
    comparison = posed.comparison
    assert comparison is not None
    graph, draw = Graph.of(comparison.model), generator(posed.question.seed, "ties")
    sizes = torch.tensor([abs(scores[name]) for name in graph.names], dtype=torch.float64)
    level = (sizes / sizes.max().clamp(min=1e-300) / LEVEL).round()
    circuits = [Circuit.of(graph, sorted(posed.true))]
    for _ in range(ORDERS):
        order = torch.randperm(graph.n_edges, generator=draw)
        best = order[level[order].argsort(descending=True, stable=True)][: len(posed.true)]
        circuits.append(Circuit.numbered(graph, best.tolist(), {}))
    kept = faithfulness(comparison, circuits).values.mean(-1)
    return float(np.abs(kept[1:] - kept[0]).mean())


def obeyed(posed: Posed, answer: Answer, again: Method) -> Values:
    """How often answers follow exchanges within the subspaces, on other rows; and those for arbitrary answers."""
    question, test = posed.question, posed.test
    assert test is not None and question.rows is not None
    model, n_classes = question.run.hooked(), question.run.decoder.config.d_vocab

    def accuracy(bases: Mapping[str, torch.Tensor], rows: object, points: set[str]) -> float:
        each = [interchange_accuracy(model, rows, point, bases[point]).values for point in sorted(points)]  # type: ignore[arg-type]
        return float(np.nanmean(each)) if each else float("nan")

    nonsense, nonsense_test = (
        arbitrary(rows, n_classes, generator(question.seed, "arbitrary")) for rows in (question.rows, test)
    )
    fooled = again(replace(question, rows=nonsense))
    points, true = set(question.candidates), set(posed.true)
    return {
        "where_accuracy": accuracy(answer.bases, test, true),
        "where_elsewhere": accuracy(answer.bases, test, points - true),
        "where_arbitrary": float("nan") if fooled is None else accuracy(fooled.bases, nonsense_test, true),
    }
