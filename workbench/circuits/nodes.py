"""Attribution to nodes: what one head, MLP, residual position or entry of a pattern does to the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.circuits.comparison import Comparison, activations, gradients
from workbench.circuits.graph import Graph
from workbench.measurement import Measurement
from workbench.util.lookup import lookup
from workbench.util.progress import steps


@dataclass(frozen=True)
class Site:
    """A kind of activation.

    Attributes:
        hook: its hook name, with `{}` for the layer.
        axes: its axes after the batch, without the last one where that is a vector's.
        is_vector: whether a vector stands at each place, and not a number.
        words: in words.
    """

    hook: str
    axes: tuple[str, ...]
    words: str
    is_vector: bool = True


SITES: dict[str, Site] = {
    "resid_pre": Site("blocks.{}.hook_resid_pre", ("position",), "the residual before the layer"),
    "resid_mid": Site("blocks.{}.hook_resid_mid", ("position",), "the residual after attention"),
    "resid_post": Site("blocks.{}.hook_resid_post", ("position",), "the residual after the layer"),
    "attn_out": Site("blocks.{}.hook_attn_out", ("position",), "what attention writes"),
    "mlp_out": Site("blocks.{}.hook_mlp_out", ("position",), "what the MLP writes"),
    "head": Site("blocks.{}.attn.hook_z", ("position", "head"), "what a head reads, and so what it writes"),
    "q": Site("blocks.{}.attn.hook_q", ("position", "head"), "a head's queries"),
    "k": Site("blocks.{}.attn.hook_k", ("position", "head"), "a head's keys"),
    "v": Site("blocks.{}.attn.hook_v", ("position", "head"), "a head's values"),
    "pattern": Site("blocks.{}.attn.hook_pattern", ("head", "query", "key"), "a head's attention pattern", False),
}
"""Site -> where it is. An entry of a pattern is the token-graph edge query → key: a layer that takes several steps, as
ChaCAL does, reads over it in all of them."""

NOT_SHOWN = "It tells what one part does while all others stay, so parts that stand in for each other show little."


def _axes_of(site: str, by: Sequence[str] | None) -> tuple[str, ...]:
    """The axes by which effects are told apart, beside the layer: by default heads, of residuals positions.

    Raises:
        ValueError: if there is no such site, or the site no such axis.
    """
    axes = lookup(SITES, site, "site").axes
    if by is None:
        return ("head",) if "head" in axes else axes
    for axis in by:
        if axis not in axes:
            raise ValueError(f"{site} has no axis {axis!r}; there is: {', '.join(axes)}")
    return tuple(axis for axis in axes if axis in by)


@torch.no_grad()
def activation_patching(comparison: Comparison, site: str, by: Sequence[str] | None = None) -> Measurement:
    """The exact effect of putting one part of the other run in: a pass for each place, many places at once.

    As TransformerLens's `get_act_patch_*`, less what is measured without an edit.

    Args:
        comparison: the model, the pairs, the metric and the direction.
        site: a name in `SITES`.
        by: the axes to patch one index at a time (`head`, `position`; of a pattern `query`, `key`); along all others
            everything is patched. By default heads, of residuals positions.

    Returns the change of the metric: dims `layer`, those of `by`, `example` (a pair each); NaN at a position of a pair
    that neither of its sequences has. Where heads share keys and values, `head` counts their groups.

    Raises:
        ValueError: if there is no such site or axis, or the model has no such hook point.
    """
    by = _axes_of(site, by)
    parts = []
    for where, part in comparison.parts():
        base, source = comparison.sides(part)
        clean = comparison.clean_logits(part)
        names = _names(comparison, site)
        taken = activations(comparison, source, names)
        unedited = torch.from_numpy(comparison.unedited(where))
        effects = []
        for name in steps(names, f"patching {SITES[site].words}"):
            sizes = [taken[name].shape[1 + SITES[site].axes.index(axis)] for axis in by]
            values = torch.cat(
                [
                    _patched(comparison, part, base, clean, name, taken[name], mask)
                    for mask in _masks(comparison, taken[name], site, by)
                ]
            )
            effects.append(((values.double().cpu() - unedited) * comparison.sign()).view(*sizes, -1))
        parts.append(torch.stack(effects).numpy())
    caption = f"The change of the {comparison.measure.name} when {SITES[site].words} of the other run is put in. "
    return _measured(comparison, f"Activation patching: {site}", parts, by, caption + NOT_SHOWN)


def attribution_patching(comparison: Comparison, site: str, by: Sequence[str] | None = None) -> Measurement:
    """Activation patching to first order: (clean − corrupted activation) · gradient, at the run that is edited.

    One pass backward for all places at once (Nanda 2023; Kramár et al. 2024). Arguments and result as for
    `activation_patching`. Where the model is far from linear between both runs, it can be far off: a saturated softmax
    has no gradient.
    """
    return attributions(comparison, {site: by})[site]


def attributions(comparison: Comparison, sites: Mapping[str, Sequence[str] | None]) -> dict[str, Measurement]:
    """`attribution_patching` of several sites, site -> the axes of it, with one pass backward for all of them."""
    axes = {site: _axes_of(site, by) for site, by in sites.items()}
    names = {site: _names(comparison, site) for site in axes}
    every = list(dict.fromkeys(chain.from_iterable(names.values())))
    parts: dict[str, list[np.ndarray]] = {site: [] for site in axes}
    for _, part in comparison.parts():
        base, source = comparison.sides(part)
        clean = comparison.clean_logits(part)
        taken = activations(comparison, source, every)
        own, slopes = gradients(comparison, base, part, clean, every)
        for site, by in axes.items():
            effects = [(taken[name] - own[name]) * slopes[name] * comparison.sign() for name in names[site]]
            # They are summed over all axes but those asked for, and the pairs go last.
            dims = [1 + number for number, axis in enumerate(SITES[site].axes) if axis not in by]
            dims += [effects[0].ndim - 1] if SITES[site].is_vector else []
            summed = [(effect.sum(dims) if dims else effect).movedim(0, -1) for effect in effects]
            parts[site].append(torch.stack(summed).double().cpu().numpy())
    return {
        site: _measured(
            comparison,
            f"Attribution patching: {site}",
            parts[site],
            by,
            f"The change of the {comparison.measure.name}, estimated from its gradient, when {SITES[site].words} of "
            f"the other run is put in. {NOT_SHOWN}",
        )
        for site, by in axes.items()
    }


def node_scores(comparison: Comparison, *, exact: bool = False, by_position: bool = True) -> Measurement:
    """What every head and MLP does: dims `node` (as in the graph), `position` if asked for, `example`.

    Args:
        comparison: the model, the pairs, the metric and the direction.
        exact: by activation patching, a pass for each place; otherwise by attribution patching.
        by_position: each position by itself; otherwise all positions of a node at once.
    """
    graph = Graph.of(comparison.model)
    position = ("position",) if by_position else ()
    sites = {"head": (*position, "head"), **({"mlp_out": position} if graph.has_mlps else {})}
    if exact:
        scores = {site: activation_patching(comparison, site, by) for site, by in sites.items()}
    else:
        scores = attributions(comparison, sites)
    heads = scores["head"]
    of_node = {f"a{i}.h{h}": heads.values[i, ..., h, :] for i in range(graph.n_layers) for h in range(graph.n_heads)}
    if graph.has_mlps:
        of_node |= {f"m{layer}": values for layer, values in enumerate(scores["mlp_out"].values)}
    nodes, dims = [node for node in graph.writers if node in of_node], (*position, "example")
    words = "what one head or MLP writes" + " at one position" * by_position
    return replace(
        heads,
        name=f"{heads.name.split(':')[0]} of heads and MLPs{' by position' * by_position}",
        values=np.stack([of_node[node] for node in nodes]),
        dims=("node", *dims),
        coords={"node": nodes, **{dim: heads.coords[dim] for dim in dims}},
        caption=heads.caption.replace(SITES["head"].words, words),
    )


def _names(comparison: Comparison, site: str) -> list[str]:
    return [SITES[site].hook.format(layer) for layer in range(cast(Any, comparison.model.cfg).n_layers)]


def _masks(
    comparison: Comparison, activation: Tensor, site: str, by: Sequence[str]
) -> Iterator[Bool[Tensor, "place 1 *axes"]]:
    """Which entries are patched at each place, as many places at a time as fit one pass."""
    axes, n = SITES[site].axes, len(activation)
    sizes = dict(zip(axes, activation.shape[1:], strict=False))
    places = list(product(*(range(sizes[axis]) for axis in by)))
    at_once = max(1, comparison.rows_at_once // n)
    for start in range(0, len(places), at_once):
        some = torch.tensor(places[start : start + at_once], dtype=torch.long, device=activation.device)
        mask = torch.ones(len(some), *(1 for _ in activation.shape), dtype=torch.bool, device=activation.device)
        for column, axis in enumerate(by):
            shape = [1] * activation.ndim
            shape[1 + axes.index(axis)] = sizes[axis]
            index = torch.arange(sizes[axis], device=activation.device).view(1, *shape)
            mask = mask & (index == some[:, column].view(-1, *(1 for _ in activation.shape)))
        yield mask


def _patched(
    comparison: Comparison,
    part: Any,
    base: Int[Tensor, "pair pos"],
    clean: Tensor,
    name: str,
    taken: Tensor,
    mask: Bool[Tensor, "place 1 *axes"],
) -> Tensor:
    """The metric of each pair `[place, pair]` when these places are patched."""
    n_places = len(mask)

    def patch(activation: Tensor, hook: Any) -> Tensor:
        by_place = activation.view(n_places, len(base), *activation.shape[1:])
        return torch.where(mask, taken, by_place).reshape(activation.shape)

    logits = comparison.run(base.repeat(n_places, 1), [(name, patch)])
    by_place = logits.view(n_places, len(base), *logits.shape[1:])
    return torch.stack([comparison.score(each, part, clean) for each in by_place])


def _measured(
    comparison: Comparison, name: str, parts: Sequence[np.ndarray], by: Sequence[str], caption: str
) -> Measurement:
    values = np.concatenate(parts, axis=-1)
    pairs = comparison.pairs
    real = (pairs.real(pairs.clean) | pairs.real(pairs.corrupted)).T.cpu().numpy()
    for number, axis in enumerate(by, 1):
        if axis != "head":  # means over pairs are of those that have a token there
            places = real[(slice(None), *(None,) * (values.ndim - 2 - number))]
            values = np.where(places, values, np.nan)
    coords = {axis: range(size) for axis, size in zip(("layer", *by), values.shape[:-1], strict=True)}
    n_heads = int(cast(Any, comparison.model.cfg).n_heads)
    if len(coords.get("head", range(n_heads))) != n_heads:
        caption += f" Heads share keys and values: `head` counts groups of {n_heads // len(coords['head'])} heads."
    return comparison.measurement(name, values, coords, caption)
