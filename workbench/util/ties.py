"""Accuracy when scores tie: a class that shares the largest score with k − 1 others counts as 1/k of a hit.

All code that counts hits uses these functions, never `argmax` or `topk`, which give a tie to the class with the lowest
number: a model whose logits are all equal would then answer token 0, and be right wherever that is the answer. The
functions return the expected outcome when tied classes are put in random order, independently at each position; without
ties that is 0 or 1, the same as with `argmax` and `topk`.

Scores tie only if they are equal to the last bit. There is no tolerance for rounding: how large it is depends on what
was computed, and a tolerance would turn true narrow leads into ties. NaN is never the largest.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def hit(scores: Float[Tensor, "*lead class"], wanted: Int[Tensor, "*lead"]) -> Float[Tensor, "*lead"]:
    """The probability that the wanted class is chosen: 1 alone at the top, 1/k as one of k there, 0 below it.

    Args:
        scores: the score of each class.
        wanted: the wanted class; a class that does not exist (−1, or beyond the last) is never hit.
    """
    n = scores.shape[-1]
    score = scores.gather(-1, wanted.clamp(0, n - 1)[..., None])
    best = (score >= scores.amax(-1, keepdim=True)) & ((wanted >= 0) & (wanted < n))[..., None]
    k = (scores >= score).sum(-1, keepdim=True, dtype=torch.int32)  # a sum in int64 takes longer than argmax
    return torch.where(best, 1.0 / k, 0.0)[..., 0]


def on_top(scores: Float[Tensor, "*lead class"], m: Int[Tensor, "*lead"] | int) -> Float[Tensor, "*lead class"]:
    """The probability that each class is among the m with the largest scores: 1, 0, or a share where a tie decides.

    If l classes tie with the m-th largest score, and a classes are above it, each of the l has probability (m − a)/l.
    """
    m, above, edge = _edge_of_the_top(scores, m)
    share = (m - above) / (scores == edge).sum(-1, keepdim=True).clamp(min=1)
    probability = torch.where(scores > edge, 1.0, torch.where(scores == edge, share.clamp(0, 1), 0.0))
    return torch.where(m > 0, probability, 0.0)


def exactly(scores: Float[Tensor, "*lead class"], members: Bool[Tensor, "*lead class"]) -> Float[Tensor, "*lead"]:
    """The probability that the m classes with the largest scores are exactly the m members.

    It is 0 or 1 without a tie at the m-th largest score. Where the last c places are shared by l tied classes, each of
    the (l choose c) choices is equally likely.
    """
    m, above, edge = _edge_of_the_top(scores, members.sum(-1))
    fits = ((scores >= edge) | ~members).all(-1) & ((scores <= edge) | members).all(-1)
    chosen, tied = (m - above)[..., 0].double(), (scores == edge).sum(-1).double()
    log_choices = torch.lgamma(tied + 1) - torch.lgamma(chosen + 1) - torch.lgamma(tied - chosen + 1)
    probability = torch.where(chosen == tied, 1.0, (-log_choices).exp()).float()
    return torch.where(m[..., 0] > 0, torch.where(fits, probability, 0.0), 1.0)


def agreement(first: Float[Tensor, "*lead class"], second: Float[Tensor, "*lead class"]) -> Float[Tensor, "*lead"]:
    """The probability that two sets of scores have the same class at the top; 1/k if all k classes tie in both."""
    top_of_first, top_of_second = level(first), level(second)
    pairs = top_of_first.sum(-1) * top_of_second.sum(-1)
    return (top_of_first & top_of_second).sum(-1) / pairs.clamp(min=1)


def level(scores: Float[Tensor, "*lead class"]) -> Bool[Tensor, "*lead class"]:
    """The classes that share the largest score."""
    return scores == scores.amax(-1, keepdim=True)


def top(scores: Float[Tensor, "*lead class"]) -> tuple[Int[Tensor, "*lead"], Int[Tensor, "*lead"]]:
    """A class with the largest score, and how many share that score: of one alone, the class says all that is asked."""
    first = scores.argmax(-1)
    return first, (scores >= scores.gather(-1, first[..., None])).sum(-1, dtype=torch.int32)


def clear(scores: Float[Tensor, "*lead class"]) -> Int[Tensor, "*lead"]:
    """The class with the largest score, or −1 where several share it."""
    top = scores.argmax(-1)
    return torch.where(hit(scores, top) == 1, top, -1)


def named(scores: Float[Tensor, "n class"], words: Callable[[Tensor], list[str]]) -> list[str]:
    """The word for the class with the largest score in each row; `tie of k` where k classes share it.

    Args:
        scores: the score of each class.
        words: gives the words for classes, such as `task.words`.
    """
    ties = level(scores).sum(-1).tolist()
    return [word if k == 1 else f"tie of {k}" for word, k in zip(words(scores.argmax(-1)), ties, strict=True)]


def _edge_of_the_top(
    scores: Float[Tensor, "*lead class"], m: Int[Tensor, "*lead"] | int
) -> tuple[Tensor, Tensor, Tensor]:
    """Three tensors with a class dim of 1: m, how many scores lie above the m-th largest, and the m-th largest."""
    m = torch.as_tensor(m, device=scores.device).expand(scores.shape[:-1])[..., None]
    edge = scores.sort(-1, descending=True).values.gather(-1, (m - 1).clamp(0, scores.shape[-1] - 1))
    return m, (scores > edge).sum(-1, keepdim=True), edge
