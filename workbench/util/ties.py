"""Hits when scores tie: of k classes level at the top each is said in one case of k, so that a tie is worth 1/k.

Whatever decides a hit by the largest scores asks here, never `argmax` or `topk`, which give a tie to the class with the
lowest number: a model that writes nothing would then "say" token 0 and be right wherever that is the answer. What is
returned is the expected outcome when level classes are put in random order, each position's ties on their own; without
ties it is 0 or 1, as `argmax` and `topk` have it.

Only scores that are equal to the last bit tie. Scores that rounding alone tells apart do not: how far rounding reaches
depends on what was computed, and a tolerance would turn true narrow leads into ties. NaN is never on top.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def hit(scores: Float[Tensor, "*lead class"], wanted: Int[Tensor, "*lead"]) -> Float[Tensor, "*lead"]:
    """How far the wanted class is the one with the largest score: 1 alone on top, 1/k as one of k, 0 below the top.

    Args:
        scores: of each class.
        wanted: a class; one that there is not (−1, or beyond the last) is never hit.
    """
    n = scores.shape[-1]
    own = scores.gather(-1, wanted.clamp(0, n - 1)[..., None])
    best = (own >= scores.amax(-1, keepdim=True)) & ((wanted >= 0) & (wanted < n))[..., None]
    k = (scores >= own).sum(-1, keepdim=True, dtype=torch.int32)  # counted in int64 it takes longer than argmax
    return torch.where(best, 1.0 / k, 0.0)[..., 0]


def on_top(scores: Float[Tensor, "*lead class"], m: Int[Tensor, "*lead"] | int) -> Float[Tensor, "*lead class"]:
    """How likely each class is among the m with the largest scores: 1, 0, or where the last places tie a share.

    Of l classes level with the m-th largest score, a of the others being above it, each has (m − a)/l.
    """
    m, above, edge = _places(scores, m)
    share = (m - above) / (scores == edge).sum(-1, keepdim=True).clamp(min=1)
    found = torch.where(scores > edge, 1.0, torch.where(scores == edge, share.clamp(0, 1), 0.0))
    return torch.where(m > 0, found, 0.0)


def exactly(scores: Float[Tensor, "*lead class"], members: Bool[Tensor, "*lead class"]) -> Float[Tensor, "*lead"]:
    """How likely the m classes with the largest scores are just these m: 1, 0, or 1 in as many as a tie allows."""
    m, above, edge = _places(scores, members.sum(-1))
    fits = ((scores >= edge) | ~members).all(-1) & ((scores <= edge) | members).all(-1)
    chosen, among = (m - above)[..., 0].double(), (scores == edge).sum(-1).double()
    ways = torch.lgamma(among + 1) - torch.lgamma(chosen + 1) - torch.lgamma(among - chosen + 1)
    one = torch.where(chosen == among, 1.0, (-ways).exp()).float()
    return torch.where(m[..., 0] > 0, torch.where(fits, one, 0.0), 1.0)


def agreement(first: Float[Tensor, "*lead class"], second: Float[Tensor, "*lead class"]) -> Float[Tensor, "*lead"]:
    """How likely two sets of scores have the same class on top; of two whose k classes are all level, 1/k."""
    one, other = level(first), level(second)
    return (one & other).sum(-1) / (one.sum(-1) * other.sum(-1)).clamp(min=1)


def level(scores: Float[Tensor, "*lead class"]) -> Bool[Tensor, "*lead class"]:
    """The classes that share the largest score."""
    return scores == scores.amax(-1, keepdim=True)


def clear(scores: Float[Tensor, "*lead class"]) -> Int[Tensor, "*lead"]:
    """The class with the largest score, or −1 where several share it: a tie is no answer."""
    top = scores.argmax(-1)
    return torch.where(hit(scores, top) == 1, top, -1)


def named(scores: Float[Tensor, "n class"], words: Callable[[Tensor], list[str]]) -> list[str]:
    """The word for the class on top of each row, `tie of k` where k share it.

    Args:
        scores: of each class.
        words: the words for classes, such as `task.words`.
    """
    many = level(scores).sum(-1).tolist()
    return [word if k == 1 else f"tie of {k}" for word, k in zip(words(scores.argmax(-1)), many, strict=True)]


def _places(scores: Float[Tensor, "*lead class"], m: Int[Tensor, "*lead"] | int) -> tuple[Tensor, Tensor, Tensor]:
    """m, how many are above the m-th largest score, and that score; each with the class dim, of size 1."""
    m = torch.as_tensor(m, device=scores.device).expand(scores.shape[:-1])[..., None]
    edge = scores.sort(-1, descending=True).values.gather(-1, (m - 1).clamp(0, scores.shape[-1] - 1))
    return m, (scores > edge).sum(-1, keepdim=True), edge
