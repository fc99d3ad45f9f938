"""Token circuits: which tokens a head would read from which, and what it would write for them, without any input.

W_E W_Q W_Kᵀ W_Eᵀ is the score of each token as a query with each as a key; W_E W_V W_O W_U what reading a token does to
the logits ("A Mathematical Framework for Transformer Circuits", Elhage et al., 2021). Measured of every head:
`copying`, Σ λ / Σ |λ| of the eigenvalues of the OV circuit (1: tokens raise their own logits), and `matching`, the same
of the QK circuit (1: tokens read their own kind). Shows: what the weights would do to bare tokens. Does not show: what
they do in a model, where positions, norms, biases and other layers come between; of the layer's own norm, scores have
the mean length that it gives to what is embedded. What is read through a ChaCAL head is not its pattern but the
resolvent of it: `reads` has both. Control: untrained weights, whose eigenvalues have either sign alike.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.instruments.weights.heads import HeadWeights, why_no_weights
from workbench.measurement import Measurement
from workbench.models import Decoder
from workbench.models.layers import Layer
from workbench.util.memory import check_memory

CONTROLS = ("untrained",)
MOST_TOKENS = 4096  # of larger vocabularies no matrix of pairs is made
PROPERTIES = ("copying", "matching")
ENDS = {
    "QK": ("token", "token"),
    "QK token-position": ("token", "position"),
    "QK position-position": ("position", "position"),
    "OV": ("token", "logit"),
}
"""Circuit -> what its rows and its columns are. Positions are those that are added to embeddings."""

why_not = why_no_weights


@torch.no_grad()
def measure(subject: Subject) -> Measurement:
    """How far each head would copy the token it reads, and read its own kind: dims `property`, `layer`, `head`.

    Raises:
        ValueError: if the model's maps are not known.
    """
    weights, (encoder, decoder) = HeadWeights.of(subject), _bases(subject)
    # d_head × d_head matrices with the circuits' eigenvalues other than 0
    small = (weights.o @ (decoder.T @ encoder) @ weights.v, weights.k.mT @ (encoder.T @ encoder) @ weights.q)
    eigenvalues = torch.linalg.eigvals(torch.stack(small))  # [property, layer, head, d_head]
    return Measurement(
        name="Token circuits",
        values=(eigenvalues.real.sum(-1) / eigenvalues.abs().sum(-1)).numpy(),
        dims=("property", "layer", "head"),
        coords={"property": PROPERTIES},
        units="share of the eigenvalues",
        settings={"model": subject.name},
        caption="Sum of the eigenvalues over the sum of their sizes: 1 where the head would raise the logit of every "
        "token it reads (copying), or read tokens of the query's kind (matching); 0 on average in random weights.",
    )


def _bases(subject: Subject) -> tuple[Tensor, Tensor]:
    return subject.encoder.detach().double().cpu(), subject.decoder.detach().double().cpu()


def circuits_of(subject: Subject) -> list[str]:
    """The names in `ENDS` of the circuits that a model's heads have."""
    return [kind for kind, ends in ENDS.items() if "position" not in ends or _positions(subject) is not None]


def _positions(subject: Subject) -> Tensor | None:
    """The vectors `[pos, d_model]` that are added to embeddings; None where there are none."""
    model = cast(Decoder, subject.model)
    if model.position_embedding is None:
        return None
    at = torch.arange(model.config.n_ctx, device=model.token_embedding.weight.device)
    return model.position_embedding(at).detach().double().cpu()


@torch.no_grad()
def stretch(subject: Subject, layer: int) -> float:
    """By how much the norm before a layer's attention makes what is embedded longer, as a ratio of root mean squares.

    Of the first tokens, `MOST_TOKENS` at most, each at one position. It is 1 without a norm.
    """
    model = cast(Decoder, subject.model)
    embedded, norm = model.token_embedding.weight[:MOST_TOKENS], cast(Layer, model.layers[layer]).ln1
    if model.position_embedding is not None:
        at = torch.arange(len(embedded), device=embedded.device) % model.config.n_ctx
        embedded = embedded + model.position_embedding(at)
    passed = norm(embedded) - norm(torch.zeros_like(embedded))  # less its bias
    length = float(embedded.double().norm())
    return float(passed.double().norm()) / length if length else 1.0


_End = tuple[Tensor, list[str]]


def _parts(subject: Subject, layer: int, head: int, kind: str) -> tuple[_End, _End, tuple[Tensor, Tensor]]:
    """The vectors `[end, d_model]` and the names of a circuit's rows, of its columns, and the factors between them.

    What a head reads is as long as the layer's norm makes what is embedded.

    Raises:
        ValueError: if there is no such circuit or head.
    """
    if kind not in (kinds := circuits_of(subject)):
        raise ValueError(f"the heads of {subject.name} have the circuits {', '.join(kinds)}, not {kind!r}")
    factors = HeadWeights.of(subject).of_head(layer, head, kind[:2])
    (encoder, decoder), at, longer = _bases(subject), _positions(subject), stretch(subject, layer)
    words = subject.task.words(torch.arange(len(encoder)))
    ends = {"token": (longer * encoder, words), "logit": (decoder, words[: len(decoder)])}
    if at is not None:
        ends["position"] = (longer * at, [str(position) for position in range(len(at))])
    rows, columns = (ends[end] for end in ENDS[kind])
    return rows, columns, factors


@torch.no_grad()
def circuit(subject: Subject, layer: int, head: int, kind: str) -> Measurement:
    """One head's circuit between tokens, or positions: dims `from`, `to` (their names).

    `QK`: the score over √d_head of the query token `from` with the key token `to`; `QK token-position` and `QK
    position-position` the same of what is added for positions. `OV`: what reading the token `from` adds to the logit of
    `to`.

    Args:
        subject: the model's facts.
        layer, head: which.
        kind: a name in `circuits_of(subject)`.

    Raises:
        ValueError: if there is no such head or circuit, or the vocabulary is too large for a matrix of pairs.
    """
    (rows, row_names), (columns, column_names), (into, out) = _parts(subject, layer, head, kind)
    largest, what = max(zip((len(rows), len(columns)), ("token", ENDS[kind][1]), strict=True))
    what = "token" if what == "logit" else what
    if largest > MOST_TOKENS:
        raise ValueError(f"{largest:,} {what}s have too many pairs; at most {MOST_TOKENS:,} are drawn")
    check_memory(3 * 8 * largest**2, f"pairs of {largest:,} {what}s")
    start, end = ENDS[kind]
    if kind == "OV":
        says = "Of bare tokens, what reading a token adds to logits. Positions, biases, the final norm and other layers"
    else:
        says = f"Of what is embedded alone, the score of the query {start} with the key {end}. Biases and layers"
    return Measurement(
        name=f"{kind} circuit",
        values=((rows @ into) @ (out @ columns.T)).numpy(),
        dims=("from", "to"),
        coords={"from": row_names, "to": column_names},
        units="logit" if kind == "OV" else "score",
        settings={"model": subject.name, "layer": layer, "head": head, "kind": kind},
        caption=f"{says} before it are left out; the layer's norm counts as a factor of {stretch(subject, layer):.3g}, "
        "its mean.",
    )


@torch.no_grad()
def spreads(subject: Subject, layer: int, head: int) -> Measurement:
    """By how much the scores of each `QK` circuit that is not too large differ between keys: dim `circuit`.

    The standard deviation over keys, root mean square over queries: what is the same for all keys of a query, softmax
    does not see.

    Raises:
        ValueError: as `circuit`.
    """
    found: dict[str, float] = {}
    for kind in (kind for kind in circuits_of(subject) if kind != "OV"):
        (rows, _), (columns, _), (into, out) = _parts(subject, layer, head, kind)
        if max(len(rows), len(columns)) <= MOST_TOKENS:
            queries, keys = rows @ into, out @ columns.T  # [query, d_head], [d_head, key]
            covariance = torch.cov(keys, correction=0).view(len(keys), len(keys))
            # The variance of q·k over keys is qᵀ Cov(k) q: no matrix of all pairs is made.
            found[kind] = float(torch.einsum("qd,de,qe->q", queries, covariance, queries).mean().clamp(min=0).sqrt())
    return Measurement(
        name="Spread of a head's scores",
        values=np.array(list(found.values())),
        dims=("circuit",),
        coords={"circuit": list(found)},
        units="score",
        settings={"model": subject.name, "layer": layer, "head": head},
        caption="Standard deviation over keys of the scores of what is embedded alone, root mean square over queries.",
    )


@torch.no_grad()
def reads(subject: Subject, layer: int, head: int) -> Measurement:
    """What each token would read if every token of the vocabulary stood there once: dims `matrix`, `from`, `to`.

    `pattern` is the softmax of the QK circuit; `mixing` what the variant makes of it: the same for
    standard attention, the resolvent for ChaCAL, whose paths of any number of steps lead from token to token.

    Raises:
        ValueError: as `circuit`.
    """
    scores = circuit(subject, layer, head, "QK")
    pattern = torch.from_numpy(scores.values).softmax(-1)
    mixing = subject.attention[layer].mixing_matrix(pattern[None, None])[0, 0]
    return Measurement(
        name="What a head would read",
        values=torch.stack([pattern, mixing.double()]).numpy(),
        dims=("matrix", "from", "to"),
        coords={"matrix": ("pattern", "mixing"), **scores.coords},
        units="weight",
        settings={**scores.settings, "variant": subject.attention[layer].name},
        caption="Weights between bare tokens if each stood there once and could read all: the pattern, and what the "
        "layer makes of it. In a sequence a token reads only those before it.",
    )


@torch.no_grad()
def singular_vectors(subject: Subject, layer: int, head: int, kind: str, *, top: int = 8) -> Measurement:
    """The singular vectors of a head's circuit, as tokens: dims `direction`, `side`, `rank`; labels are the tokens.

    A circuit is Σ σ_i u_i v_iᵀ. `reads` is u_i on the encoder basis; `writes` v_i on the decoder basis for `OV`, on the
    encoder basis for `QK`, whose other side is a key. The signs are such that the token with the largest component of
    u_i is positive; the settings hold σ under `singular_values`.

    Args:
        subject: the model's facts.
        layer, head, kind: as for `circuit`.
        top: tokens of each, largest component first.

    Raises:
        ValueError: if there is no such head or circuit.
    """
    encoder, decoder = _bases(subject)
    u, sigma, v = _factored_svd(*HeadWeights.of(subject).of_head(layer, head, kind))
    sides = {"reads": u.T @ encoder.T, "writes": v.T @ (encoder if kind == "QK" else decoder).T}
    largest = sides["reads"].gather(1, sides["reads"].abs().argmax(1, keepdim=True)).sign()
    top = min(top, *(side.shape[1] for side in sides.values()))
    best = [(side * largest).topk(top, dim=1) for side in sides.values()]  # each [direction, rank]
    words = np.array([[subject.task.words(row) for row in side.indices] for side in best], dtype=object)
    place = {"model": subject.name, "layer": layer, "head": head, "kind": kind}
    coords: dict[str, Any] = {"direction": range(len(sigma)), "side": list(sides), "rank": range(1, top + 1)}
    return Measurement(
        name=f"Singular vectors of the {kind} circuit",
        values=torch.stack([side.values for side in best], dim=1).numpy(),
        dims=("direction", "side", "rank"),
        coords=coords,
        units="inner product",
        settings={**place, "singular_values": sigma.tolist()},
        labels=words.transpose(1, 0, 2),
        caption="Tokens with the largest components on each side of the directions that the head carries, strongest "
        "first. A direction need not mean its tokens.",
    )


@torch.no_grad()
def path(subject: Subject, layer: int, head: int, kind: str, *, start: int, end: int) -> Measurement:
    """By which directions one entry of a circuit comes about: dim `direction`, σ_i (e_start · u_i) (v_i · d_end).

    The contributions sum to the entry of `circuit`.

    Args:
        subject, layer, head, kind: as for `circuit`.
        start, end: ids of the tokens, or the positions, `from` and `to`.

    Raises:
        ValueError: if there is no such head, circuit, token or position.
    """
    (rows, row_names), (columns, column_names), factors = _parts(subject, layer, head, kind)
    for what, at, vectors in zip(ENDS[kind], (start, end), (rows, columns), strict=True):
        if not 0 <= at < len(vectors):
            raise ValueError(f"there is no {what} {at}; there are 0 to {len(vectors) - 1}")
    u, sigma, v = _factored_svd(*factors)
    values = sigma * (u.T @ rows[start]) * (v.T @ columns[end])
    words = row_names[start], column_names[end]
    place = {"layer": layer, "head": head, "kind": kind, "from": words[0], "to": words[1]}
    return Measurement(
        name=f"Entry of the {kind} circuit",
        values=values.numpy(),
        dims=("direction",),
        coords={},
        units="logit" if kind == "OV" else "score",
        settings={"model": subject.name, **place, "entry": float(values.sum())},
        caption="What each singular direction of the circuit gives to this entry, strongest direction first; together "
        "they are it. A direction need not mean anything by itself.",
    )


def _factored_svd(
    into: Float[Tensor, "d_model d_head"], out: Float[Tensor, "d_head d_model"]
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, " d_head"], Float[Tensor, "d_model d_head"]]:
    """U, σ and V of the product, σ falling, without making it: of its factors' triangles."""
    left, right = torch.linalg.qr(into), torch.linalg.qr(out.T)
    u, sigma, vh = torch.linalg.svd(left.R @ right.R.T)
    return left.Q @ u, sigma, right.Q @ vh.T
