"""A patch grid: how much of the answer each part of a model brings back, alone, at each layer and position.

Of pairs of inputs that differ in one thing, what a part holds in one run is put into the other (Vig et al. 2020; Meng
et al. 2022): the residual, what attention and MLPs write, and each head. The strongest place of every grid is chosen on
half of the pairs and told of the other half, so that it is not strong by choice alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.circuits.comparison import Comparison
from workbench.circuits.graph import Graph
from workbench.circuits.nodes import NOT_SHOWN, SITES, activation_patching, attributions
from workbench.circuits.patched import Patches
from workbench.circuits.summary import check_enough
from workbench.measurement import Measurement
from workbench.tasks import Pairs
from workbench.util.lookup import lookup
from workbench.util.progress import interrupted, steps

WRITES = ("attn_out", "mlp_out")
GRIDS = ("resid_pre", *WRITES, "head")
"""The sites that are patched: residuals by layer and position, heads by layer and head, at all positions at once."""

METHODS = ("exact", "estimate")
"""Each place in turn, a pass for each; or all at once from the gradient, which is off where the model is not linear."""

EXACT_UP_TO = 2e12  # multiplications: about a minute of one core
LEAST_TOLD = 0.01  # of the gap: a place that brings back less is not told of
RIVALS, ALIKE = 3, 0.5  # places of a layer, whose estimates are at least this share of the largest: patched exactly
LEAST_GAP = 1e-6  # of the largest metric: with less between both runs there is nothing to bring back

Mask = Bool[Tensor, "pair pos"]


@dataclass(frozen=True)
class Place:
    """The strongest place of a grid, or of one of its layers.

    Attributes:
        site: a name in `GRIDS`.
        layer, index: of the grid; the index is of `PatchGrid.positions`, or a head.
        share: what it brings back, patched exactly, on pairs that it was not chosen on: a mean with its interval.
        control: the same on pairs that change nothing relevant, all of them; None where there are none.
    """

    site: str
    layer: int
    index: int
    share: Measurement
    control: float | None


@dataclass(frozen=True)
class PatchGrid:
    """What each part brings back of the answer, as a share of the gap between both runs.

    Attributes:
        comparison: the model and the pairs.
        gap: the metric on the clean questions less that on the corrupted ones: a single mean over pairs.
        method: a name in `METHODS`, by which the grids were made.
        positions: what `position` counts, in words: positions, where all pairs change and ask at the same ones; else
            the slots that the pairs have in common, and all else; or, without any, the positions of each pair before
            its change, at it, between it and what is asked, there, and behind.
        grids: site -> the share brought back: dims `layer`, `position` or `head`, `example`.
        control: the same on pairs that change nothing relevant, as shares of the same gap; None where there are none.
        path: for each layer the position whose residual brings back most; of places whose estimates are alike in size,
            the best when patched exactly.
        heads: the heads that bring back most, or take it furthest away, if that is `LEAST_TOLD` or more.
        writes: for attention and MLPs the same of their places, one of each.
        cut_short: whether Ctrl-C has ended it: then some sites, the control or some of the strongest places are not
            there.
    """

    comparison: Comparison
    gap: Measurement
    method: str
    positions: tuple[str, ...]
    grids: Mapping[str, Measurement]
    control: Mapping[str, Measurement] | None
    path: tuple[Place, ...]
    heads: tuple[Place, ...]
    writes: tuple[Place, ...]
    cut_short: bool = False


def patch_grid(
    comparison: Comparison,
    words: Callable[[Tensor], Sequence[str]],
    control: Comparison | None = None,
    *,
    method: str | None = None,
    n_heads: int = 5,
) -> PatchGrid:
    """Patch every part of a model, and look closer at the strongest.

    Args:
        comparison, control: the model, the pairs, the metric and the direction; and the same on pairs that change
            nothing relevant, or None.
        words: the words of token ids.
        method: a name in `METHODS`; by default `exact` where that takes a minute at most. Where pairs do not change and
            ask at the same positions, residuals, attention and MLPs are few places, and always patched exactly.
        n_heads: how many of the strongest heads are told of.

    Raises:
        ValueError: if there are too few pairs, no such method, both runs answer alike, or nothing can be patched.
    """
    check_enough(n := len(comparison.pairs))
    gap = _gap(comparison)
    _check_gap(comparison, gap)
    in_words = labels([comparison.pairs] if control is None else [comparison.pairs, control.pairs], words)
    aligned, positions = in_words is not None, in_words or list(_roles(comparison.pairs))
    if method is None:
        method = "exact" if _cost(comparison, len(positions)) <= EXACT_UP_TO else "estimate"
    lookup(dict.fromkeys(METHODS), method, "method")

    sites, about = _sites(comparison), (aligned, method)
    grids = {site: _in_shares(each, gap) for site, each in _grids(comparison, sites, "patching", *about)}
    controls = None if control is None or interrupted() else _of_control(control, sites, gap, *about)
    chosen_on = torch.arange(n)[::2]
    strength = {site: np.nan_to_num(_mean_of(each, chosen_on), nan=-np.inf) for site, each in grids.items()}
    along = (
        strength["resid_pre"].argmax(-1) if method == "exact" else _along(comparison, strength["resid_pre"], aligned)
    )
    chosen = {
        "path": [("resid_pre", layer, int(index)) for layer, index in enumerate(along)],
        "heads": _strongest(strength, "head", n_heads),
        "writes": [place for site in WRITES for place in _strongest(strength, site, 1)],
    }
    every = [place for places in chosen.values() for place in places]
    told = {} if interrupted() else _told(comparison, control, aligned, every)
    kept = {kind: tuple(told[place] for place in places if place in told) for kind, places in chosen.items()}
    kept["heads"] = tuple(sorted(kept["heads"], key=lambda head: -float(head.share.values)))
    return PatchGrid(
        comparison,
        comparison.measurement(f"Gap in {comparison.measure.name}", gap, {}, "Clean less corrupted.").mean(),
        method,
        tuple(positions),
        grids,
        controls,
        cut_short=len(told) < len(every) or len(grids) < len(sites),
        **kept,
    )


def _of_control(
    control: Comparison, sites: Sequence[str], gap: np.ndarray, aligned: bool, method: str
) -> dict[str, Measurement] | None:
    """The grids of control pairs, as shares of the other pairs' mean gap; None where Ctrl-C left sites out."""
    whole = np.full(len(control.pairs), gap.mean())
    effects = _grids(control, sites, "patching control pairs", aligned, method)
    grids = {site: _in_shares(each, whole) for site, each in effects}
    return grids if len(grids) == len(sites) else None


def _grids(
    comparison: Comparison, sites: Sequence[str], what: str, aligned: bool, method: str
) -> Iterator[tuple[str, Measurement]]:
    """The effects of every place of each site; estimates are of all sites together.

    Of pairs that are not aligned a place is a role, and estimates of its positions are summed: to first order that is
    the effect of all of them at once.
    """
    if method == "exact":
        for site in steps(sites, what, keep=True):
            each = aligned or site == "head"
            yield site, activation_patching(comparison, site) if each else _by_role(comparison, site)
        return
    for site, effects in attributions(comparison, dict.fromkeys(sites)).items():
        if not aligned and site != "head":
            roles = _roles(comparison.pairs)
            within = torch.stack([*roles.values()]).transpose(1, 2).cpu().numpy()  # [role, position, pair]
            summed = np.einsum("lpn,rpn->lrn", np.nan_to_num(effects.values), within)
            coords = {"layer": effects.coords["layer"], "position": list(roles)}
            values = np.where(within.any(1), summed, np.nan)
            effects = comparison.measurement(effects.name, values, coords, effects.caption)
        yield site, effects


def _check_gap(comparison: Comparison, gap: np.ndarray) -> None:
    """Raise ValueError if both runs answer alike."""
    if abs(gap.mean()) <= LEAST_GAP * max(1.0, float(np.abs(comparison.baselines).max())):
        raise ValueError(
            f"the mean {comparison.measure.name} of clean and corrupted questions is the same "
            f"({comparison.baselines[0].mean():.3g}): there is nothing to bring back; choose pairs that the model "
            "answers differently"
        )


Where = tuple[str, int, int]
"""A site, a layer, and an index: of the positions, or a head."""


def _told(
    comparison: Comparison, control: Comparison | None, aligned: bool, places: Sequence[Where]
) -> dict[Where, Place]:
    """Places patched exactly, on the pairs that they were not chosen on; Ctrl-C keeps those that are done.

    The control's share is of the gap of all pairs.
    """
    tested = comparison.of(comparison.pairs.halves()[1])
    gap, kinds = _gap(tested), [place[:2] for place in places]
    own, other = Patches(tested, kinds), None if control is None else Patches(control, kinds)
    told = {}
    for place in steps(places, "patching the strongest places once more", keep=True):
        site, layer, index = place
        share = _in_shares(_effect(own, site, layer, _mask(tested, site, index, aligned)), gap).mean()
        of_control = None
        if other is not None:
            effects = _effect(other, site, layer, _mask(other.comparison, site, index, aligned))
            whole = np.full(len(other.comparison.pairs), _gap(comparison).mean())
            of_control = float(_in_shares(effects, whole).mean().values)
        told[place] = Place(site, layer, index, share, of_control)
    return told


def _along(comparison: Comparison, estimates: Float[np.ndarray, "layer position"], aligned: bool) -> Sequence[int]:
    """Each layer's strongest position by estimates, whose sizes tell better than their signs.

    An early layer's estimate may have the wrong sign where a single position differs between both runs; one that is
    exactly 0 is of a position where nothing does. Ctrl-C leaves the largest estimate.
    """
    sizes = abs(np.nan_to_num(estimates, nan=0.0, neginf=0.0))
    rivals = [[int(i) for i in (-row).argsort(kind="stable")[:RIVALS] if row[i] >= ALIKE * row.max()] for row in sizes]
    best, several = [places[0] for places in rivals], [layer for layer, places in enumerate(rivals) if len(places) > 1]
    half = comparison.of(comparison.pairs.halves()[0])
    patches, gap = Patches(half, [("resid_pre", layer) for layer in several]), _gap(half)
    for layer in steps(several, "patching positions with estimates alike", keep=True):
        masks = [_mask(half, "resid_pre", index, aligned) for index in rivals[layer]]
        shares = [_in_shares(_effect(patches, "resid_pre", layer, mask), gap).mean().values for mask in masks]
        best[layer] = rivals[layer][int(np.argmax(shares))]
    return best


def _strongest(strength: Mapping[str, np.ndarray], site: str, n_places: int) -> list[Where]:
    """The places with most effect, for or against the answer; none of a site that was not patched."""
    if site not in strength:
        return []
    size = abs(np.nan_to_num(strength[site], neginf=0.0))
    order = (-size).argsort(None, "stable")[:n_places]
    places = [np.unravel_index(flat, size.shape) for flat in order if size.flat[flat] >= LEAST_TOLD]
    return [(site, int(layer), int(index)) for layer, index in places]


def labels(sides: Sequence[Pairs], words: Callable[[Tensor], Sequence[str]]) -> list[str] | None:
    """Each position in words: its slot, or else the token that all pairs have there; what is changed or asked.

    None unless all pairs have the same length, and change and ask at the same positions.

    Args:
        sides: the pairs that are named, and perhaps others.
        words: the words of token ids.
    """
    pairs, lengths = sides[0], {each.clean.tokens.shape[1] for each in sides}
    masks = (mask for each in sides for mask in (each.changed, each.asked, _real(each), *each.slots.values()))
    if len(lengths) > 1 or not all(bool((mask == mask[:1]).all()) for mask in masks):
        return None
    tokens, changed, asked = (side.cpu() for side in (pairs.clean.tokens, pairs.changed, pairs.asked))
    in_words = []
    for position in range(tokens.shape[1]):
        parts = [str(position), *(name for name, mask in pairs.slots.items() if mask[0, position])]
        if len(parts) == 1 and (tokens[:, position] == tokens[0, position]).all():
            parts += words(tokens[:1, position])
        parts += ["(changed)"] * bool(changed[0, position]) + ["(asked)"] * bool(asked[0, position])
        in_words.append(" ".join(parts))
    return in_words


def _roles(pairs: Pairs) -> dict[str, Mask]:
    """What a position is in its pair -> where it is; each position is one of these."""
    if pairs.slots:
        return {**pairs.slots, "elsewhere": _real(pairs) & ~torch.stack([*pairs.slots.values()]).any(0)}
    until = pairs.asked.flip(1).cumsum(1).flip(1) > 0  # behind what is asked, answers differ that are input too
    change = pairs.changed & until
    before, asked = change.cumsum(1) == 0, pairs.asked & ~change
    roles = {
        "before the change": before,
        "the change": change,
        "between": until & ~before & ~change & ~asked,
        "what is asked": asked,
        "behind": ~until & ~before,
    }
    return {name: mask & _real(pairs) for name, mask in roles.items()}


def _real(pairs: Pairs) -> Mask:
    """The positions that one of the sequences of a pair has."""
    return pairs.real(pairs.clean) | pairs.real(pairs.corrupted)


def _gap(comparison: Comparison) -> Float[np.ndarray, " pair"]:
    """The metric of each pair's clean question less that of its corrupted one."""
    return comparison.baselines[0] - comparison.baselines[1]


def _sites(comparison: Comparison) -> list[str]:
    """The sites that the model has."""
    has_mlps = Graph.of(comparison.model).has_mlps
    return [site for site in GRIDS if site != "mlp_out" or has_mlps]


def _cost(comparison: Comparison, n_positions: int) -> float:
    """The multiplications of exact patching: a pass of all pairs for each place, a multiplication for each weight."""
    cfg, tokens = cast(Any, comparison.model.cfg), comparison.pairs.clean.tokens
    places = cfg.n_layers * ((len(_sites(comparison)) - 1) * n_positions + cfg.n_heads)
    return float(places * tokens.numel() * sum(weight.numel() for weight in comparison.model.parameters()))


def _mean_of(grid: Measurement, pairs: Tensor) -> np.ndarray:
    """The mean over some of the pairs, `[layer, place]`; NaN where fewer than half of them have such a position."""
    part = replace(grid, values=grid.values[..., pairs], coords={**grid.coords, "example": range(len(pairs))}).mean()
    return np.where(2 * np.asarray(part.n) >= len(pairs), part.values, np.nan)


def _in_shares(effects: Measurement, gap: Float[np.ndarray, " pair"]) -> Measurement:
    """Effects as shares of the gap of the pairs that have a token there.

    Each pair has the value with which their mean is the ratio of the means, and their spread that of such a ratio (the
    delta method, as of `faithfulness`).
    """
    real = ~np.isnan(effects.values)  # [..., pair]
    n = np.maximum(real.sum(-1, keepdims=True), 1)
    mean_gap = np.where(real, gap, 0).sum(-1, keepdims=True) / n
    with np.errstate(invalid="ignore", divide="ignore"):  # where no pair has a token
        share = np.nansum(effects.values, -1, keepdims=True) / n / mean_gap
        values = share + (effects.values - share * gap) / mean_gap
    what = "comes back" if effects.settings["direction"] == "denoise" else "is lost"
    caption = effects.caption.replace("The change of", f"The share of the gap between both runs that {what}, of", 1)
    return replace(effects, values=values, units="share of the metric", caption=caption)


def _by_role(comparison: Comparison, site: str) -> Measurement:
    """The effect of each role's positions, all of a role at once: dims `layer`, `position`, `example`."""
    n_layers, roles = cast(Any, comparison.model.cfg).n_layers, _roles(comparison.pairs)
    patches = Patches(comparison, [(site, layer) for layer in range(n_layers)])
    effects = [
        [patches.effect((site, layer), mask[..., None]) for mask in roles.values()]
        for layer in steps(range(n_layers), f"patching {SITES[site].words}")
    ]
    caption = f"The change of the {comparison.measure.name} when {SITES[site].words} of the other run is put in. "
    coords = {"layer": range(n_layers), "position": list(roles)}
    return comparison.measurement(f"Activation patching: {site}", np.array(effects), coords, caption + NOT_SHOWN)


def _mask(comparison: Comparison, site: str, index: int, aligned: bool) -> Bool[Tensor, "pair *axes 1"]:
    """The entries of an activation that a place of a grid stands for: a head, a position, or those of a role."""
    pairs = comparison.pairs
    if site == "head":
        head = (torch.arange(cast(Any, comparison.model.cfg).n_heads) == index)[None, None, :, None]
        return head.expand(len(pairs), -1, -1, -1)  # [pair, 1, head, 1]
    if aligned:
        return (_real(pairs) & (torch.arange(pairs.clean.tokens.shape[1]) == index))[..., None]  # [pair, pos, 1]
    return list(_roles(pairs).values())[index][..., None]  # [pair, pos, 1]


def _effect(patches: Patches, site: str, layer: int, mask: Bool[Tensor, "pair *axes 1"]) -> Measurement:
    """The exact effect of what a mask takes in: the dim `example`."""
    name = f"Activation patching: {site}"
    return patches.comparison.measurement(name, patches.effect((site, layer), mask), {}, "")
