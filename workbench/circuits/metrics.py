"""What an answer is measured by: one number for each pair from the logits, larger the better the clean answer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.tasks import Pairs


@dataclass(frozen=True)
class Metric:
    """A measure of answers.

    Attributes:
        name: in words, as in titles of figures.
        units: of the change of the measure that an edit makes.
        of: logits `[pair, pos, class]`, the pairs, and the logits of the clean run -> `[pair]`.
        needs_clean: whether it looks at the logits of the clean run.
    """

    name: str
    units: str
    of: Callable[[Tensor, Pairs, Tensor], Float[Tensor, " pair"]]
    needs_clean: bool = False


def _only_right(pairs: Pairs, n_classes: int) -> tuple[Bool[Tensor, "pair pos class"], Bool[Tensor, "pair pos class"]]:
    """The classes of the right answer that the wrong one has not, and those of the wrong one alone."""
    right, wrong = (
        targets if targets.ndim == 3 else torch.nn.functional.one_hot(targets, n_classes).bool()
        for targets in (pairs.right, pairs.wrong)
    )
    return right & ~wrong, wrong & ~right


def _over_asked(values: Float[Tensor, "pair pos"], pairs: Pairs) -> Float[Tensor, " pair"]:
    """The mean over the positions that a pair asks for."""
    return torch.where(pairs.asked, values, 0.0).sum(-1) / pairs.asked.sum(-1)


def _logit_difference(logits: Tensor, pairs: Pairs, clean: Tensor) -> Float[Tensor, " pair"]:
    """The logit of the right answer less that of the wrong one, mean over the answers asked for.

    Of sets, the mean logit of the classes that only the right set has, less that of those only in the wrong one; a side
    without such classes counts as 0.
    """
    if pairs.right.ndim == 2:
        both = [logits.gather(2, targets[..., None])[..., 0] for targets in (pairs.right, pairs.wrong)]
        return _over_asked(both[0] - both[1], pairs)
    sides = _only_right(pairs, logits.shape[-1])
    means = [torch.where(side, logits, 0.0).sum(-1) / side.sum(-1).clamp(min=1) for side in sides]
    return _over_asked(means[0] - means[1], pairs)


def _probability(logits: Tensor, pairs: Pairs, clean: Tensor) -> Float[Tensor, " pair"]:
    """The probability of the right answer, mean over the answers asked for; of sets, of the classes only it has."""
    share = logits.softmax(-1)
    if pairs.right.ndim == 2:
        return _over_asked(share.gather(2, pairs.right[..., None])[..., 0], pairs)
    return _over_asked(torch.where(_only_right(pairs, logits.shape[-1])[0], share, 0.0).sum(-1), pairs)


def _divergence(logits: Tensor, pairs: Pairs, clean: Tensor) -> Float[Tensor, " pair"]:
    """Minus the Kullback–Leibler divergence of the answers from the clean run's, so that 0 is the best.

    Its gradient at the clean run is 0: attribution by gradients there tells nothing of it (Syed et al. 2023, §3).
    """
    log_clean, log_own = clean.log_softmax(-1), logits.log_softmax(-1)
    return _over_asked(-(log_clean.exp() * (log_clean - log_own)).sum(-1), pairs)


METRICS: dict[str, Metric] = {
    "logit_difference": Metric("logit difference", "logits", _logit_difference),
    "probability": Metric("probability of the right answer", "change of a probability", _probability),
    "kl": Metric("minus the divergence from the clean answers", "change in nats", _divergence, needs_clean=True),
}
