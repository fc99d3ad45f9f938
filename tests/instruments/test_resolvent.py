"""The resolvent of any pattern: agrees with the layer and with the reference values, and is the sum of its paths."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph
from workbench.instruments.attention.resolvent import chacal, followed, matrices, resolvent, steps
from workbench.models.attention.chacal import ChacalAttention

NUMERICS = json.loads((Path(__file__).parents[1] / "data" / "numerics.json").read_text(encoding="utf-8"))
Patterns = Callable[..., Tensor]


@pytest.mark.parametrize("case", [case for case in NUMERICS["chacal"] if not case["diagonal_in_inverse"]])
def test_resolvent_of_the_reference_pattern_reads_the_reference_values(case: dict) -> None:
    A = torch.tensor(NUMERICS["standard"]["pattern"], dtype=torch.float64)
    values = torch.tensor(NUMERICS["v"], dtype=torch.float64)
    found = chacal(case["gamma"], case["form"]).mixing_matrix(A) @ values
    assert found.numpy() == pytest.approx(torch.tensor(case["z"], dtype=torch.float64).numpy(), abs=1e-9)


def test_gamma_zero_is_the_pattern(random_pattern: Patterns) -> None:
    A = random_pattern(7, 2, 3)
    assert torch.allclose(resolvent(A, 0.0), A)


def test_rows_of_the_resolvent_sum_to_one_and_those_of_the_layer_to_less(random_pattern: Patterns) -> None:
    A = random_pattern(6, 2)
    assert torch.allclose(resolvent(A, 0.9).sum(-1), torch.ones(2, 6, dtype=A.dtype))
    assert (chacal(0.9).mixing_matrix(A).sum(-1)[:, 0] < 1).all()


def test_wrong_settings_are_refused_in_one_line(random_pattern: Patterns) -> None:
    A = random_pattern(3, 1)
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\) .*, not 1"):
        resolvent(A, 1.0)
    with pytest.raises(ValueError, match="unknown form of the resolvent 'eq6'"):
        chacal(0.5, "eq6")


@pytest.mark.parametrize("variant", ["chacal", "standard"])
def test_without_a_gamma_the_matrix_is_what_the_layer_applies(
    chained: Callable[..., Capture], uniform: Patterns, variant: str
) -> None:
    seen = chained(uniform, variant=variant)
    own, applied = matrices(seen, 2, 0, 1), attention_graph.matrices(seen, 2, 0, 1)
    assert own.values[0] == pytest.approx(applied.select(matrix="resolvent").values)
    assert own.dims == applied.dims and list(own.coords["query"]) == list(applied.coords["query"])


def test_at_gamma_zero_the_matrix_is_the_pattern_and_at_another_the_resolvent(
    chained: Callable[..., Capture], uniform: Patterns
) -> None:
    seen = chained(uniform, variant="chacal")
    A = attention_graph.pattern(seen, 0)[1, 0]
    assert matrices(seen, 1, 0, 0, gamma=0.0).values[0] == pytest.approx(A.numpy())
    found = matrices(seen, 1, 0, 0, gamma=0.5)
    assert found.values[0] == pytest.approx(resolvent(A, 0.5).numpy())
    assert found.settings["gamma"] == 0.5
    with pytest.raises(ValueError, match="gamma must be in"):
        matrices(seen, 0, 0, 0, gamma=1.0)


@pytest.mark.parametrize("settings", [{}, {"form": "eq7"}, {"diagonal": True}], ids=str)
def test_the_steps_of_a_head_weighed_by_gamma_add_up_to_what_its_layer_applies(
    chained: Callable[..., Capture], uniform: Patterns, settings: dict[str, Any]
) -> None:
    seen = chained(uniform, variant="chacal")
    layer = ChacalAttention(gamma=0.4, **settings)
    seen = replace(seen, subject=replace(seen.subject, attention=(layer,) * seen.subject.n_layers))
    found = steps(seen, 1, 0, 1, n_hops=60)
    assert found.dims == ("hop", "query", "key") and list(found.coords["hop"][:2]) == [1, 2]
    A = attention_graph.pattern(seen, 0)[1, 1]
    assert np.allclose(found.values[0], A)
    weighed = np.tensordot(0.6 * 0.4 ** np.arange(60), found.values, 1)
    assert np.allclose(weighed, layer.mixing_matrix(A), atol=1e-6)


def test_a_layer_that_is_no_chacal_is_followed_by_the_papers_form(
    chained: Callable[..., Capture], uniform: Patterns
) -> None:
    seen = chained(uniform, variant="standard")
    A = attention_graph.pattern(seen, 0)[0, 0].numpy()
    inner = A - np.diag(np.diag(A))
    assert np.allclose(steps(seen, 0, 0, 0, n_hops=3).values, [A, A @ inner, A @ inner @ inner], atol=1e-6)
    assert followed(seen, 0, 0).gamma == 0
    with pytest.raises(ValueError, match="n_hops must be at least 1, not 0"):
        steps(seen, 0, 0, 0, n_hops=0)
    with pytest.raises(ValueError, match="there is no head 9"):
        steps(seen, 0, 0, 9, n_hops=1)
