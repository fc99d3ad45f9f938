"""Projections of the residual on both bases: which tokens it points at, read as input and as output.

The rows of the embedding are the *encoder basis*, the columns of the unembedding the *decoder basis*; the residual
before the MLP (`resid_mid`) and after it (`resid_post`) is projected on both (the task-hinting paper, §4),
as inner products, as cosines, or as coordinates by least squares, which a basis that is not orthogonal needs.
On the decoder basis it is read as the model reads its last residual, through the final norm; what is read before the
norm can name another token than the model says. Shows: which token's direction is largest at a position. Does not show:
that later layers use it, or what of the residual lies in neither basis (see `unexplained`); by inner products a basis
vector longer than the rest wins more often. Control: a re-initialised model, which too points at its own token in the
encoder basis, since the embedding is part of the residual; and the tokens of other examples (`mismatched`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.shared import by_rows, no_reason, positions_read, said_of_sample
from workbench.measurement import Measurement
from workbench.util.lookup import lookup
from workbench.util.ties import hit, top

How = Literal["raw", "cosine", "coordinates"]
BASES = ("encoder", "decoder")
UNITS: dict[str, str] = {"raw": "inner product", "cosine": "cosine", "coordinates": "coordinate"}
CONTROLS = ("mismatched", "untrained")
SHOWN = 8  # tokens of a cell that are looked up at once: other figures show more or fewer of them
DEEP, ROWS = 20, 12  # more points than this are too many to look at, and how many are shown then, at most
AS_READ = " (the decoder basis after the model's final norm, as it reads its last residual)"

why_not = no_reason


def needs(subject: Subject) -> list[str]:
    """The residual after attention (`resid_mid`) and after the MLP (`resid_post`) of every layer."""
    return subject.residuals


def from_embedding(subject: Subject) -> list[str]:
    """The points of `needs`, with the embedding before them."""
    return ["blocks.0.hook_resid_pre", *needs(subject)]


def some_points(subject: Subject) -> list[str]:
    """The points of `from_embedding`; of a deep model the embedding and every so many layers' end, the last among them.

    They fit on a page: `ROWS` at most.
    """
    every = from_embedding(subject)
    if len(every) <= DEEP:
        return every
    ends = [point for point in every if point.endswith("hook_resid_post")][::-1]
    return [every[0], *ends[:: -(-len(ends) // (ROWS - 1))][::-1]]


def basis(subject: Subject, name: str) -> Float[Tensor, "token d_model"]:
    """The `encoder` or `decoder` basis, or one's own by its name. Raises ValueError for any other name."""
    own = {} if subject.directions is None else {subject.directions.name: subject.directions.vectors}
    return lookup(own | {"encoder": subject.encoder, "decoder": subject.decoder}, name, "basis")


def names(subject: Subject, basis_name: str, ids: Int[Tensor, " n"]) -> list[str]:
    """What these vectors of a basis are called: tokens' words, or the names of one's own directions."""
    if basis_name in BASES or subject.directions is None:
        return subject.task.words(ids)
    return [subject.directions.names[i] for i in ids.tolist()]


def project(
    residual: Float[Tensor, "*batch d_model"], basis: Float[Tensor, "token d_model"]
) -> Float[Tensor, "*batch token"]:
    """Inner product of each residual with each basis vector."""
    return residual @ basis.to(residual).T


@lru_cache(maxsize=4)
def _dual(basis: Float[Tensor, "token d_model"]) -> Float[Tensor, "token d_model"]:
    """The vectors whose inner products with a residual are its least-squares coordinates in a basis, in float64.

    Of all coefficients c that come nearest to x = Σ_t c_t b_t, the smallest: c = pinv(Bᵀ) x. Many come equally near
    where there are more tokens than dimensions, or tokens that depend on each other.
    """
    return torch.linalg.pinv(basis.double(), rtol=rounding(basis)).T


def rounding(vectors: Float[Tensor, "token d_model"], n_rows: int | None = None) -> float:
    """The share of the largest singular value below which another one is rounding, and its direction not counted.

    In the weights' own precision; in single precision for half-precision weights, whose own would count most as none.

    Args:
        vectors: the rows, or some of them.
        n_rows: how many rows there are in all; by default these.
    """
    eps = min(torch.finfo(vectors.dtype).eps, torch.finfo(torch.float32).eps)
    return max(n_rows or len(vectors), vectors.shape[1]) * eps


@torch.no_grad()
def components(
    subject: Subject,
    residual: Float[Tensor, "*batch d_model"],
    basis_name: str,
    *,
    how: How = "raw",
    final_norm: bool = True,
) -> Float[Tensor, "*batch token"]:
    """Components of a residual on one of the model's bases; on the decoder basis as the model reads its last residual.

    Args:
        subject: the model's facts.
        residual: `[..., d_model]`.
        basis_name: `encoder`, `decoder`, or the name of one's own (`subject.directions`).
        how: `raw` inner products; their `cosine`, 0 where a vector is zero; least-squares `coordinates` (see `_dual`).
            The latter two are computed and returned in float64.
        final_norm: on the decoder basis, pass the residual through the model's final norm first; `raw` inner products
            then have the unembedding's bias added, and at the last point they are the model's logits. On the encoder
            basis, which the norm has no part in, it changes nothing.

    Raises:
        ValueError: if there is no such basis or way.
    """
    lookup(UNITS, how, "projection")
    vectors, as_output = basis(subject, basis_name), final_norm and basis_name == "decoder"
    x = subject.final_norm(residual) if as_output else residual
    if how == "raw":
        bias = subject.unembed_bias if as_output else None
        return project(x, vectors) if bias is None else project(x, vectors) + bias.to(x)
    x = x.double()
    if how == "coordinates":
        return project(x, _dual(vectors))
    return project(F.normalize(x, dim=-1), F.normalize(vectors.double(), dim=-1))


def measure(
    capture: Capture, *, how: How = "raw", final_norm: bool = True, points: Sequence[str] | None = None
) -> Measurement:
    """How often the residual's top token is the position's own token, or its target.

    Dims `token` (`own`: over all real positions; `target`: over scored positions whose target is one class), `basis`,
    `point` (hook name), `example`. Points are hook names of residuals, by default those of `needs`; `how` and
    `final_norm` are those of `components`.
    """
    batch, key = capture.batch, ("by row", "read")
    if key not in capture.computed:  # the same positions beside another example's tokens
        capture.computed[key] = positions_read(capture, real_positions(capture))
    read = capture.computed[key]
    wanted = {"own": (batch.tokens, read)}
    if batch.targets.ndim == 2:
        wanted["target"] = (batch.targets, read & batch.loss_mask.cpu())
    points = needs(capture.subject) if points is None else list(points)
    expected = torch.stack([classes.cpu() for classes, _ in wanted.values()], dim=-1)
    scored = torch.stack([positions for _, positions in wanted.values()], dim=-1)
    values = np.empty((len(wanted), len(BASES), len(points), len(batch)))
    for b, name in enumerate(BASES):
        for p, right in enumerate(_hits(capture, points, expected, read, name, how, final_norm)):
            values[:, b, p] = ((right * scored).sum(1) / scored.sum(1)).T.numpy()
    measured = Measurement(
        name="Top token of the residual",
        values=values,
        dims=("token", "basis", "point", "example"),
        coords={"token": list(wanted), "basis": BASES, "point": points},
        units="share",
        settings={"model": capture.subject.name, "how": how, "final_norm": final_norm},
        caption=f"Share of positions at which the largest {UNITS[how]} is that of the position's own token, or of its "
        "target. A re-initialised model scores high on its own token, which its residual contains.",
    )
    return said_of_sample(measured, capture)


@torch.no_grad()
def _hits(
    capture: Capture,
    points: Sequence[str],
    expected: Int[Tensor, "batch pos wanted"],
    read: Bool[Tensor, "batch pos"],
    basis_name: str,
    how: How,
    final_norm: bool,
) -> Iterator[Float[Tensor, "batch pos wanted"]]:
    """At each point, whether the largest component at each position is that of these tokens; 1/k of k that tie.

    The largest ones are found once for a capture, of all points together: a large vocabulary's vectors are read once
    for many rows.
    """
    computed, width = capture.computed, len(capture.subject.encoder)
    parts = partial(components, capture.subject, basis_name=basis_name, how=how, final_norm=final_norm)
    keys = {point: ("by row", "top", point, basis_name, how, final_norm) for point in points}
    missing = [point for point in points if keys[point] not in computed]

    def tied(x: Tensor, classes: Tensor) -> Tensor:
        each = parts(x)
        return torch.stack([hit(each, one.to(each.device)) for one in classes.unbind(-1)], dim=-1)

    if missing:
        residuals = torch.stack([capture[point][read] for point in missing])
        tops = by_rows(lambda x: torch.stack(top(parts(x)), dim=-1), residuals, width=width).cpu()
        for point, of_point in zip(missing, tops, strict=True):  # the token, and how many tie
            computed[keys[point]] = torch.zeros(*read.shape, 2, dtype=torch.long)
            computed[keys[point]][read] = of_point
    for point in points:
        first, n_first = computed[keys[point]].unbind(-1)
        right = (first[..., None] == expected).float()
        ties = read & (n_first != 1)
        if ties.any():
            right[ties] = by_rows(tied, capture[point][ties], expected[ties], width=width).cpu()
        yield right


def real_positions(capture: Capture) -> Tensor:
    """`[batch, pos]` bool, true where a token is no padding."""
    tokens = capture.batch.tokens
    return torch.arange(tokens.shape[1]) < capture.subject.task.lengths(tokens).cpu()[:, None]


def sequence(capture: Capture, example: int) -> list[str]:
    """The words of one example's real tokens.

    Raises:
        ValueError: if there is no such example.
    """
    tokens, task = capture.batch.tokens, capture.subject.task
    if not 0 <= example < len(tokens):
        raise ValueError(f"there is no example {example}; the batch has {len(tokens)}")
    return task.words(tokens[example, : int(task.lengths(tokens[example : example + 1])[0])])


def position_names(capture: Capture, example: int) -> list[str]:
    """One example's real tokens as `position:word`. Raises ValueError if there is no such example."""
    return [f"{i}:{word}" for i, word in enumerate(sequence(capture, example))]


def top_tokens(
    capture: Capture,
    *,
    example: int = 0,
    top: int = 5,
    how: How = "raw",
    final_norm: bool = True,
    points: Sequence[str] | None = None,
    bases: Sequence[str] | None = None,
) -> Measurement:
    """One example's largest components at every point and position, on both bases, best first.

    Dims `basis`, `point` (hook name), `position` (`position:word`), `rank` (from 1); `labels` are the tokens'
    words. Points are hook names, by default those of `needs`; `bases` are by default `encoder` and `decoder`; of one's
    own basis the labels are the directions' names. `how` and `final_norm` are those of `components`.

    Raises:
        ValueError: if there is no such example or basis, or `top` is not within the vocabulary.
    """
    subject, positions = capture.subject, position_names(capture, example)
    points = needs(subject) if points is None else list(points)
    bases = BASES if bases is None else tuple(bases)
    _check_top(subject, bases, top)
    cells = torch.stack([_largest(capture, points, example, top, name, how, final_norm) for name in bases])
    shape = (len(bases), len(points), len(positions), top)
    values, ids = cells.view(*shape, 2).unbind(-1)
    vectors = [names(subject, *each) for each in zip(bases, ids.long().flatten(1), strict=True)]
    return Measurement(
        name="Residual on both bases",
        values=values.numpy(),
        dims=("basis", "point", "position", "rank"),
        coords={"basis": bases, "point": points, "position": positions, "rank": range(1, top + 1)},
        units=UNITS[how],
        settings={"model": subject.name, "example": example, "how": how, "final_norm": final_norm},
        labels=np.array(vectors).reshape(shape),
        caption="The tokens whose embedding row (encoder) or unembedding column (decoder) has the largest "
        f"{UNITS[how]} with the residual{AS_READ if final_norm else ''}. A large one does not show that the model uses "
        "the token.",
    )


def _check_top(subject: Subject, bases: Sequence[str], top: int) -> None:
    """Raise ValueError unless each of these bases has so many vectors."""
    smallest = min(len(basis(subject, name)) for name in bases)
    if not 1 <= top <= smallest:
        of = "vocabulary" if set(bases) <= {*BASES} else "basis"
        raise ValueError(f"top must be between 1 and the {of}'s {smallest}, not {top}")


def _largest(
    capture: Capture, points: Sequence[str], example: int, top: int, basis_name: str, how: How, final_norm: bool
) -> Float[Tensor, "point position top 2"]:
    """The largest components of one example's residual at each point, and their tokens; computed once for a capture.

    All points that are not yet computed go together: a large vocabulary's vectors are read once for many rows.
    """
    subject, kept = capture.subject, capture.computed
    n_vectors = len(basis(subject, basis_name))
    keys = {point: ("largest", point, example, basis_name, how, final_norm) for point in points}
    missing = [point for point, key in keys.items() if key not in kept or kept[key].shape[1] < top]
    if missing:
        n = min(max(top, SHOWN), n_vectors)
        length = len(sequence(capture, example))

        def largest(x: Tensor) -> Tensor:
            best = components(subject, x, basis_name, how=how, final_norm=final_norm).topk(n)
            return torch.stack([best.values.double(), best.indices.double()], dim=-1)

        residuals = torch.stack([capture[point][example, :length] for point in missing])
        cells = by_rows(largest, residuals, width=n_vectors).cpu()
        kept.update({keys[point]: each for point, each in zip(missing, cells, strict=True)})
    return torch.stack([kept[key][:, :top] for key in keys.values()])
