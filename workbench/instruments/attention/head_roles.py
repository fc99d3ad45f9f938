"""Head roles: how far each head does one of the things heads are known to do, by the task's truth and by the tokens.

Shows: the share of a head's pattern on the task's gold edges one hop away (`gold precision`), the share of these edges
among its strongest keys (`gold recall`), and its mass on the position before (`previous token`), on earlier positions
with the same token (`duplicate token`), on what followed them (`induction`), on the position itself and on the first.
Roles overlap: one key can be several of these. Does not show: what the head writes, or that the model needs it.
Control: attention drawn at random (`random_graph`), which on average is uniform attention and so the chance level of
every role; re-initialised models (`untrained`); other examples' truth and tokens (`mismatched`), which leaves
`previous token`, `own position` and `first token` as they are.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention.attention_graph import mass_on, needs, pattern, unit_rows, why_no_pattern
from workbench.measurement import Measurement
from workbench.util.ties import on_top

__all__ = ["CONTROLS", "ROLES", "measure", "needs", "role_keys", "why_not"]

CONTROLS = ("mismatched", "untrained", "random_graph")
ROLES = (
    "gold precision",
    "gold recall",
    "previous token",
    "duplicate token",
    "induction",
    "own position",
    "first token",
)

why_not = why_no_pattern  # where the task has no graph, roles of gold edges are not a number


def measure(capture: Capture, *, by_label: bool = False) -> Measurement:
    """Each role of each head on each example: dims `role`, `layer`, `head`, `example`.

    Args:
        capture: of what this module `needs`.
        by_label: a role more for each label of the task whose values are tokens, such as `reads minimum`: the keys that
            hold the token of the query's label; and for each slot of prompts, such as `reads S2`, from the answer.

    All but `gold recall` are the mean mass of a query on the role's keys, over the queries that have one, so that a
    head which does nothing else scores 1. (TransformerLens's `detect_head` divides by all queries: its score is this
    one times the share of queries that have such a key.) `gold recall` is the share of gold edges whose key is among
    the row's m largest, m the number of gold keys of that query. NaN where an example has no such key.
    """
    keys, layers = role_keys(capture, by_label), capture.subject.layers
    gold = keys["gold precision"]
    roles = (*ROLES, *(role for role in keys if role not in ROLES))
    by_layer, asked = [], {role: where for role, where in keys.items() if where.any()}
    for layer in layers:
        A = unit_rows(pattern(capture, layer)).cpu()
        by_role = dict.fromkeys(roles, torch.full((A.shape[1], len(A)), torch.nan))  # without a key anywhere
        by_role |= {role: mass_on(A, where) for role, where in asked.items()}
        if "gold precision" in asked:
            future = torch.ones(A.shape[-2:], dtype=torch.bool).triu(1)  # 0 too, but no key: never level with one
            m = gold.sum(-1)[:, None].expand(A.shape[:-1])  # [batch, head, query]
            hits = on_top(A.masked_fill(future, -1.0), m) * gold[:, None]  # equals in random order
            by_role["gold recall"] = (hits.sum((-1, -2)) / gold.sum((-1, -2))[:, None]).transpose(0, 1)
        by_layer.append(torch.stack([by_role[role].double() for role in roles]).numpy())
    values = np.stack(by_layer, axis=1)
    return Measurement(
        name="Head roles",
        values=values,
        dims=("role", "layer", "head", "example"),
        coords={"role": roles, "layer": layers},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of each query's attention on the keys of a role, over queries that have one; gold recall: share "
        "of gold edges among as many of the strongest keys. Roles overlap, and none says that the model needs it.",
    )


def role_keys(capture: Capture, by_label: bool = False) -> dict[str, Bool[Tensor, "batch query key"]]:
    """The keys of each role but `gold recall`, which has those of `gold precision`; arguments as of `measure`."""
    tokens, task, truth = capture.batch.tokens.cpu(), capture.subject.task, capture.truth
    (n, n_pos), lengths = tokens.shape, task.lengths(tokens)
    keys = {"gold precision": truth.adjacency(n, n_pos, 1), **_keys_of_tokens(tokens, lengths)}
    place = torch.arange(n_pos)
    reached = (place <= place[:, None]) & (place < lengths[:, None, None])  # [batch, query, key]
    for label in task.token_labels if by_label else ():
        values = truth.labels.get(label, torch.full_like(tokens, -1)).cpu()
        keys[f"reads {label}"] = (tokens[:, None, :] == values[:, :, None]) & (values >= 0)[:, :, None] & reached
    asked = capture.batch.loss_mask.cpu()[:, :, None]
    for number, slot in enumerate(task.slots if by_label else ()):
        keys[f"reads {slot}"] = asked & (truth.labels["slot"] == number)[:, None, :] & reached
    return keys


def _keys_of_tokens(
    tokens: Int[Tensor, "batch pos"], lengths: Int[Tensor, " batch"]
) -> dict[str, Bool[Tensor, "batch query key"]]:
    """The keys of each role that depends on tokens and positions alone, as TransformerLens's head detector has them.

    Induction: the position after an earlier occurrence of the query's token, which may be the query itself.
    """
    place = torch.arange(tokens.shape[1])
    real = place < lengths[:, None]
    among = real[:, :, None] & real[:, None, :]
    before = place < place[:, None]
    duplicate = (tokens[:, :, None] == tokens[:, None, :]) & before
    return {
        "previous token": (place == place[:, None] - 1) & among,
        "duplicate token": duplicate & among,
        "induction": torch.nn.functional.pad(duplicate, (1, 0))[..., :-1] & among,
        "own position": torch.eye(len(place), dtype=torch.bool) & among,
        "first token": (place == 0) & (place[:, None] > 0) & among,
    }
