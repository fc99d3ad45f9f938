"""Roles of planted heads, in agreement with TransformerLens's head detector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import head_roles
from workbench.measurement.controls.mismatched import mismatched
from workbench.measurement.controls.random_graph import random_graph
from workbench.util.seeds import generator

Stage = Callable[..., Capture]
Pattern = Callable[..., Tensor]
TOKENS = [[1, 2, 3, 1, 2, 2, 4, 3], [2, 2, 1, 0, 1, 2, 1, 0]]


def scores(capture: Capture) -> dict[str, np.ndarray]:
    found = head_roles.measure(capture)
    assert found.dims == ("role", "layer", "head", "example")
    return dict(zip(found.coords["role"], found.values, strict=True))


def test_a_head_on_parents_has_the_gold_role_alone(chained: Callable[..., Capture], parents: Pattern) -> None:
    capture = chained(parents, n=200)
    found = {role: value.mean() for role, value in scores(capture).items()}
    assert found["gold precision"] == found["gold recall"] == 1 and found["previous token"] < 0.3
    control = {role: value.mean() for role, value in scores(mismatched(capture, generator(0, "control"))).items()}
    assert control["gold precision"] == pytest.approx(0.25, abs=0.03)
    assert control["previous token"] == found["previous token"]


def test_recall_counts_edges_among_the_strongest_and_precision_mass(
    chained: Callable[..., Capture], parents: Pattern, uniform: Pattern
) -> None:
    found = scores(chained(lambda tokens: 0.3 * parents(tokens) + 0.7 * uniform(tokens)[:, :1]))
    assert (found["gold recall"] == 1).all()
    assert found["gold precision"] == pytest.approx(0.3 + 0.7 * np.mean([1 / (i + 1) for i in range(4, 16)]))


@pytest.mark.parametrize(
    ("role", "detector"),
    [
        ("previous token", "previous_token_head"),
        ("duplicate token", "duplicate_token_head"),
        ("induction", "induction_head"),
    ],
)
def test_roles_agree_with_transformer_lens_but_for_queries_without_a_key(
    stage: Stage, random_pattern: Pattern, role: str, detector: str
) -> None:
    from transformer_lens import head_detector

    A = random_pattern(8, 2, 1)
    found = scores(stage(TOKENS, n_layers=1, patterns=[A]))[role][0, 0]
    for example, tokens in enumerate(torch.tensor(TOKENS)):
        keys = getattr(head_detector, f"get_{detector}_detection_pattern")(tokens[None])
        score = head_detector.compute_head_attention_similarity_score(
            A[example, 0], keys, exclude_bos=False, exclude_current_token=False, error_measure="mul"
        )
        assert found[example] * keys.any(-1).double().mean() == pytest.approx(score)


def test_padding_has_no_role(stage: Stage, random_pattern: Pattern) -> None:
    A = random_pattern(6, 1, 2)
    short = scores(stage([[1, 2, 1, 1]], pad=4, n_layers=1, patterns=[A[..., :4, :4]]))
    padded = scores(stage([[1, 2, 1, 1, 4, 4]], pad=4, n_layers=1, patterns=[A]))
    for role in head_roles.ROLES:
        assert padded[role] == pytest.approx(short[role], nan_ok=True), role
    assert np.isnan(short["gold recall"]).all() and not np.isnan(short["induction"]).any()


def test_chance_is_the_share_of_keys_that_play_the_role(stage: Stage) -> None:
    tokens = torch.tensor(TOKENS).repeat(400, 1)
    found = scores(random_graph(stage(tokens, n_layers=1), generator(0, "graph")))
    keys = head_roles._keys_of_tokens(tokens, torch.full((800,), 8))
    for role, mask in keys.items():
        share = mask.sum(-1) / torch.arange(1, 9)
        expected = (share.sum(-1) / mask.any(-1).sum(-1)).mean()
        assert found[role].mean() == pytest.approx(expected.item(), abs=0.02), role
