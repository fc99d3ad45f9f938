"""Distributed alignment search: the subspace in which a variable lives, found by gradients, beside its controls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.circuits.hypotheses import Interchange, exchanged_logits, held, interchange_accuracy
from workbench.measurement import Measurement

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

SUBSPACES = ("found", "all", "random", "arbitrary")


@dataclass(frozen=True)
class Search:
    """How a subspace is sought.

    Attributes:
        rank: its dimensions.
        steps: of Adam.
        rows: interchanges in a step.
        rate: Adam's learning rate.
    """

    rank: int = 1
    steps: int = 200
    rows: int = 64
    rate: float = 0.01


def random_subspace(d_model: int, rank: int, generator: torch.Generator) -> Float[Tensor, "d_model rank"]:
    """An orthonormal basis of a random subspace.

    Raises:
        ValueError: if the rank is not within 1 … d_model.
    """
    if not 1 <= rank <= d_model:
        raise ValueError(f"a subspace of {d_model} dimensions has a rank of 1 to {d_model}, not {rank}")
    return torch.linalg.qr(torch.randn(d_model, rank, generator=generator, dtype=torch.float64))[0]


def find_subspace(
    model: AnyHooked, rows: Interchange, point: str, search: Search, generator: torch.Generator
) -> Float[Tensor, "d_model rank"]:
    """Distributed alignment search (Geiger et al. 2024): the subspace whose exchange gives the answers that follow.

    An orthonormal basis, the Q of a QR decomposition, is fitted by Adam to the cross-entropy of the predicted answers.
    It finds some subspace for arbitrary answers and in untrained models too (Arora et al. 2024): see `alignment`.

    Args:
        model: the hooked model, whose weights stay as they are.
        rows: what it is fitted on; test it on others.
        point: a hook name of the residual.
        search: rank, steps and rate.
        generator: draws the first basis, and the rows of each step.

    Raises:
        ValueError: if there is no such hook point, or the rank is not within 1 … d_model.
    """
    taken = held(model, rows.source, rows.source_at, point)
    first = random_subspace(taken.shape[-1], search.rank, generator).to(taken)
    weights = first.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([weights], lr=search.rate)
    for _ in range(search.steps):
        some = torch.randint(len(rows), (min(search.rows, len(rows)),), generator=generator).to(rows.base.device)
        with torch.enable_grad():
            basis = torch.linalg.qr(weights)[0]
            logits = exchanged_logits(model, rows[some], point, basis, taken[some])
            loss = torch.nn.functional.cross_entropy(logits, rows.predicted[some])
        (weights.grad,) = torch.autograd.grad(loss, [weights])
        optimiser.step()
    return torch.linalg.qr(weights.detach())[0]


def arbitrary(rows: Interchange, n_classes: int, generator: torch.Generator) -> Interchange:
    """The same interchanges with answers that follow from nothing: each predicted class stands for a random other one.

    Where the class drawn is the base's own answer, the next one stands.
    """
    order = torch.randperm(n_classes, generator=generator)
    label: Int[Tensor, " class"] = torch.empty_like(order).scatter_(0, order, order.roll(1))
    other = label.to(rows.predicted.device)[rows.predicted]
    return replace(rows, predicted=torch.where(other == rows.before, (other + 1) % n_classes, other))


def alignment(
    model: AnyHooked,
    fit: Interchange,
    test: Interchange,
    point: str,
    search: Search,
    generator: torch.Generator,
    *,
    name: str = "model",
) -> Measurement:
    """The interchange accuracy of the subspace found, beside its controls: dims `subspace`, `example`.

    `found` by distributed alignment search on `fit`; `all` of the residual; `random`, a subspace of the same rank;
    `arbitrary`, found in the same way for answers that follow from nothing, and tested on such. A subspace that was
    searched for is evidence only as far as `found` is above `arbitrary`, and above the same of an untrained model. On
    the compiled sorter it is not, from rank 2 on, although the variable is there: then test a subspace that is given,
    such as rows of the unembedding, by `interchange_accuracy`.

    Args:
        model, point, search, generator: as for `find_subspace`.
        fit, test: interchanges to find subspaces on, and others to test them on.
        name: what to call the model in captions.
    """
    d_model, n_classes = int(model.cfg.d_model), int(model.cfg.d_vocab)
    state = generator.get_state()
    nonsense = arbitrary(fit, n_classes, generator)
    generator.set_state(state)
    nonsense_test = arbitrary(test, n_classes, generator)
    at_random = random_subspace(d_model, search.rank, generator).to(next(model.parameters()))
    found = find_subspace(model, fit, point, search, generator)
    fooled = find_subspace(model, nonsense, point, search, generator)
    bases = ((test, found), (test, None), (test, at_random), (nonsense_test, fooled))
    parts = [interchange_accuracy(model, rows, point, basis, name) for rows, basis in bases]
    stacked = Measurement.stack(parts, "subspace", SUBSPACES)
    return replace(stacked, settings={**stacked.settings, "rank": search.rank, "steps": search.steps})
