"""Distributed alignment search: the subspace in which a variable lives, found by gradients, beside its controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.circuits.hypotheses import (
    Hypothesis,
    Interchange,
    exchanged_logits,
    held,
    interchange_accuracy,
    interchanges,
)
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.tasks import Task

DRAWS = 8  # random subspaces
SUBSPACES = ("found", "all", "random", "arbitrary")


@dataclass(frozen=True)
class Search:
    """How a subspace is sought.

    Attributes:
        rank: its dimensions.
        steps: of Adam.
        rows: interchanges in a step.
        rate: Adam's learning rate.
        within: the subspace is sought among the directions in which what is held varies, as few as have this share of
            the variance; None for all directions. Directions in which nothing varies hold no variable, and yet an
            exchange can write into them, where later layers read it: with them the search makes a compiled model give
            arbitrary answers as surely as the right ones (the illusion of Makelov et al. 2024).
    """

    rank: int = 1
    steps: int = 200
    rows: int = 64
    rate: float = 0.01
    within: float | None = 0.999


def random_subspace(d_model: int, rank: int, generator: torch.Generator) -> Float[Tensor, "d_model rank"]:
    """An orthonormal basis of a random subspace.

    Raises:
        ValueError: if the rank is not within 1 … d_model.
    """
    if not 1 <= rank <= d_model:
        raise ValueError(f"a subspace of {d_model} dimensions has a rank of 1 to {d_model}, not {rank}")
    return torch.linalg.qr(torch.randn(d_model, rank, generator=generator, dtype=torch.float64))[0]


def varying(held_there: Float[Tensor, "row d_model"], share: float | None) -> Float[Tensor, "d_model direction"]:
    """An orthonormal basis of the fewest directions with this share of the variance; of all where it is None.

    Raises:
        ValueError: if the share is not within 0 … 1, or nothing varies.
    """
    if share is None:
        return torch.eye(held_there.shape[1]).to(held_there)
    if not 0 < share <= 1:
        raise ValueError(f"within is a share of the variance, above 0 and at most 1, not {share}")
    precise = held_there.double()
    _, sizes, directions = torch.linalg.svd(precise - precise.mean(0), full_matrices=False)
    if not bool(sizes[0] > torch.finfo(held_there.dtype).eps * precise.norm()):
        raise ValueError("what is held there is the same in all rows: it holds no variable")
    enough = int(((sizes**2).cumsum(0) < share * (sizes**2).sum()).sum()) + 1
    return directions[:enough].T.to(held_there)


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
        ValueError: if there is no such hook point, or the rank is not within 1 … d_model. Where fewer directions vary,
            the subspace is all of them.
    """
    taken = held(model, rows.source, rows.source_at, point)
    frame = varying(taken, search.within)
    first = _random_within(frame, search, generator)
    weights = first.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([weights], lr=search.rate)
    for _ in range(search.steps):
        chosen = torch.randint(len(rows), (min(search.rows, len(rows)),), generator=generator).to(rows.base.device)
        with torch.enable_grad():
            basis = frame @ torch.linalg.qr(weights)[0]
            logits = exchanged_logits(model, rows[chosen], point, basis, taken[chosen])
            loss = torch.nn.functional.cross_entropy(logits, rows.predicted[chosen])
        (weights.grad,) = torch.autograd.grad(loss, [weights])
        optimiser.step()
    return frame @ torch.linalg.qr(weights.detach())[0]


def _random_within(frame: Tensor, search: Search, generator: torch.Generator) -> Float[Tensor, "direction rank"]:
    """A random subspace, in coordinates of a frame of directions; all of them where they are fewer than the rank."""
    full = random_subspace(len(frame), search.rank, generator)  # checks the rank
    return torch.linalg.qr(frame.T @ full.to(frame))[0]


def arbitrary(rows: Interchange, n_classes: int, generator: torch.Generator) -> Interchange:
    """The same interchanges with answers that follow from nothing: each predicted class stands for a random other one.

    Where the class drawn is the base's own answer, the next one stands.
    """
    order = torch.randperm(n_classes, generator=generator)
    label: Int[Tensor, " class"] = torch.empty_like(order).scatter_(0, order, order.roll(1))
    drawn = label.to(rows.predicted.device)[rows.predicted]
    return replace(rows, predicted=torch.where(drawn == rows.before, (drawn + 1) % n_classes, drawn))


def alignment(
    model: AnyHooked,
    fit: Interchange,
    test: Interchange,
    point: str,
    search: Search,
    generator: torch.Generator,
    *,
    name: str = "model",
    only_right: bool = True,
) -> Measurement:
    """The interchange accuracy of the subspace found, beside its controls: dims `subspace`, `example`.

    `found` by distributed alignment search on `fit`; `all` of the residual; `random`, mean over subspaces of the same
    rank among the same directions; `arbitrary`, found in the same way for answers that follow from nothing, and tested
    on such. A subspace that was searched for is evidence only as far as `found` is above both of these, and above the
    same of an untrained model (`beside_controls`). Where the rank is that of all that varies, `random` is `found`: a
    smaller rank says where the variable is, or a subspace that is given, such as rows of the unembedding.

    Args:
        model, point, search, generator: as for `find_subspace`.
        fit, test: interchanges to find subspaces on, and others to test them on.
        name, only_right: as for `interchange_accuracy`.
    """
    state, n_classes = generator.get_state(), int(model.cfg.d_vocab)
    nonsense = arbitrary(fit, n_classes, generator)
    generator.set_state(state)
    nonsense_test = arbitrary(test, n_classes, generator)
    frame = varying(held(model, fit.source, fit.source_at, point), search.within)
    drawn = [frame @ _random_within(frame, search, generator) for _ in range(DRAWS)]
    found, fooled = (find_subspace(model, rows, point, search, generator) for rows in (fit, nonsense))
    bases = [(test, found), (test, None), (nonsense_test, fooled), *((test, basis_drawn) for basis_drawn in drawn)]
    parts = [interchange_accuracy(model, rows, point, basis, name, only_right=only_right) for rows, basis in bases]
    at_random = replace(parts[3], values=np.mean([part.values for part in parts[3:]], axis=0))
    stacked = Measurement.stack([parts[0], parts[1], at_random, parts[2]], "subspace", SUBSPACES)
    return replace(stacked, settings={**stacked.settings, "rank": found.shape[1], "steps": search.steps})


def beside_controls(
    models: Mapping[str, AnyHooked],
    task: Task,
    hypothesis: Hypothesis,
    point: str,
    search: Search,
    generator: torch.Generator,
    *,
    n: int = 400,
) -> Measurement:
    """A hypothesis tested on a model, with all its controls: dims `model`, `subspace`, `example`.

    Args:
        models: by name; the first is the one that it is about, and counts where it answers right. The others, such as
            one with fresh weights, are controls, and count on all rows.
        task, hypothesis, n: what is drawn, n pairs of sequences to search on and n others to test.
        point: where the variable is thought to live, a hook name of the residual, or of what reads it.
        search, generator: as for `alignment`; all models have the same draws.

    Raises:
        ValueError: as `interchanges` and `find_subspace`.
    """
    fit, test = (interchanges(task, hypothesis, n, generator, split=split) for split in ("train", "test"))
    state = generator.get_state()
    parts: list[Measurement] = []
    for name, model in models.items():
        generator.set_state(state)
        only_right = not parts
        parts.append(alignment(model, fit, test, point, search, generator, name=name, only_right=only_right))
    return replace(Measurement.stack(parts, "model", list(models)), caption=hypothesis.claim)
