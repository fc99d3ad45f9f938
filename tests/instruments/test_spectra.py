"""Planted spectra, read by `entropy`, `effective_rank`, `spectrum` and `anisotropy` through captures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.instruments import matrix_entropy, over_batches
from workbench.instruments.residual import alpha_req, anisotropy, curvature, effective_rank, entropy, spectrum
from workbench.instruments.residual.anisotropy import _mean_cosine
from workbench.measurement.controls.untrained import untrained
from workbench.models import Decoder, DecoderConfig
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

Stage = Callable[..., Capture]
ALPHAS = [0.5, 1.0, 2.0, 3.0, math.inf]
POINT = "blocks.0.hook_resid_mid"
SIZES = [(1, 6, 4), (3, 6, 4), (4, 6, 4), (5, 5, 40), (7, 100, 110), (90, 120, 100)]  # rank, positions, width
SPECTRA = [[1.0], [0.7, 0.3], [0.5, 0.3, 0.15, 0.05], [2.0**-i for i in range(1, 9)], [0.9, *[0.01] * 10]]


def rotation(n: int, seed: int) -> Tensor:
    return torch.linalg.qr(torch.randn(n, n, generator=generator(seed, "spectra"), dtype=torch.float64)).Q


def planted(shares: list[float], n_pos: int, d: int, seed: int = 0) -> Tensor:
    """A matrix in general position whose squared singular values are in these proportions."""
    singular = torch.tensor(shares, dtype=torch.float64).sqrt()
    return rotation(n_pos, seed)[:, : len(shares)] @ singular.diag() @ rotation(d, seed + 1)[: len(shares)]


def renyi(p: np.ndarray, alpha: float) -> float:
    if alpha == 1:
        return float(-(p * np.log(p)).sum())
    return float(-np.log(p.max()) if math.isinf(alpha) else np.log((p**alpha).sum()) / (1 - alpha))


def with_residuals(stage: Stage, residuals: Tensor) -> Capture:
    """A capture without padding whose first `resid_mid` is `[batch, pos, d]`."""
    tokens = torch.arange(residuals.shape[1]).expand(len(residuals), -1)
    return stage(tokens, n_layers=1, activations={POINT: residuals})


@pytest.mark.parametrize(("rank", "n_pos", "d"), SIZES)
def test_equal_singular_values_have_the_logarithm_of_their_number_as_entropy(
    stage: Stage, rank: int, n_pos: int, d: int
) -> None:
    z = torch.stack([planted([1.0] * rank, n_pos, d), 1e3 * planted([1.0] * rank, n_pos, d, seed=5)])
    seen = with_residuals(stage, z)
    for alpha in ALPHAS:
        found = entropy.measure(seen, alpha=alpha, points=[POINT]).values
        assert found[0] == pytest.approx([math.log(rank)] * 2, abs=1e-6 if alpha < 1 else 1e-10)
    for of in ("singular_values", "eigenvalues"):
        assert effective_rank.measure(seen, of=of, points=[POINT]).values[0] == pytest.approx([rank] * 2, rel=1e-6)
    shares = spectrum.measure(seen, top=rank + 2, points=[POINT]).values[0, :, 0]
    assert shares[:rank] == pytest.approx([1 / rank] * rank, abs=1e-12)
    assert np.isnan(shares[n_pos:]).all() and shares[rank:n_pos] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("shares", SPECTRA, ids=str)
@pytest.mark.parametrize(("n_pos", "d"), [(12, 16), (16, 12)])
def test_any_other_spectrum_is_read_as_its_analytic_value(
    stage: Stage, shares: list[float], n_pos: int, d: int
) -> None:
    p = np.array(shares) / np.sum(shares)
    seen = with_residuals(stage, planted(shares, n_pos, d)[None])
    for alpha in ALPHAS:
        found = entropy.measure(seen, alpha=alpha, points=[POINT]).values.item()
        assert found == pytest.approx(renyi(p, alpha), abs=1e-6 if alpha < 1 else 1e-10)
    of_squares = effective_rank.measure(seen, of="eigenvalues", points=[POINT]).values.item()
    assert of_squares == pytest.approx(math.exp(renyi(p, 1)))
    roots = np.sqrt(p) / np.sqrt(p).sum()
    found = effective_rank.measure(seen, points=[POINT]).values.item()
    assert found == pytest.approx(math.exp(renyi(roots, 1))) and found >= of_squares - 1e-9
    read = spectrum.measure(seen, top=len(p), points=[POINT]).values[0, :, 0]
    assert read == pytest.approx(np.sort(p)[::-1], abs=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "gaussian", "laplacian"])
def test_the_entropy_is_that_of_the_spectrum_of_the_same_conventions(stage: Stage, kernel: Any) -> None:
    seen = with_residuals(stage, torch.randn(3, 7, 5, generator=generator(1)))
    how = {"centre": True, "unit_rows": True, "kernel": kernel, "points": [POINT]}
    p = spectrum.measure(seen, top=7, **how).values[0]
    logs = np.log(p, where=p > 0, out=np.zeros_like(p))
    assert entropy.measure(seen, **how).values[0] == pytest.approx(-(p * logs).sum(0), abs=1e-6)


def test_effective_rank_of_nothing_is_one_like_its_entropy() -> None:
    z = torch.zeros(2, 4, 3)
    z[1] = 7.0
    for of in ("singular_values", "eigenvalues"):
        assert effective_rank.effective_rank(z, of=of, centre=True).tolist() == [1, 1]  # type: ignore[arg-type]


def test_anisotropy_is_the_mean_cosine_of_all_pairs(stage: Stage) -> None:
    z = torch.randn(2, 5, 4, generator=generator(2), dtype=torch.float64)
    z[1, 2] = 0  # has no direction
    expected = []
    for one in (z[0], z[1, [0, 1, 3, 4]]):
        pairs = torch.combinations(torch.arange(len(one)))
        expected.append(torch.cosine_similarity(one[pairs[:, 0]], one[pairs[:, 1]]).mean().item())
    assert anisotropy.measure(with_residuals(stage, z), points=[POINT]).values[0] == pytest.approx(expected)


def test_anisotropy_is_one_on_a_ray_minus_one_for_opposites_and_zero_for_orthogonal_rows() -> None:
    ray = torch.tensor([1.0, 2.0, 3.0])[:, None] * torch.ones(4)
    assert _mean_cosine(ray[None]).item() == pytest.approx(1)
    assert _mean_cosine(torch.stack([ray[0], -5 * ray[0]])[None]).item() == pytest.approx(-1)
    assert _mean_cosine(torch.eye(4)[None]).item() == pytest.approx(0)
    assert _mean_cosine(ray[None, :1]).isnan().all()


INSTRUMENTS = [entropy, effective_rank, spectrum, anisotropy, alpha_req, curvature]


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def test_a_range_of_positions_is_that_part_of_the_real_tokens(stage: Stage, instrument: Any) -> None:
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9, 9], [1, 2, 3, 9, 9, 9]])
    seen = stage(tokens, pad=9, n_layers=1)
    mask = torch.tensor([[0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
    seen = replace(seen, batch=replace(seen.batch, loss_mask=mask))
    cuts = {
        "all": [(0, 6), (0, 4), (0, 3)],
        "input": [(0, 2), (0, 1), (0, 3)],
        "output": [(2, 6), (1, 4), (3, 3)],
        (1, 4): [(1, 4), (1, 4), (1, 3)],
        (-2, None): [(4, 6), (2, 4), (1, 3)],
    }
    for positions, ranges in cuts.items():
        found = instrument.measure(seen, positions=positions, points=[POINT])
        assert found.settings["positions"] == positions
        for example, (start, stop) in enumerate(ranges):
            values = found.values[0, ..., example]
            if start == stop:
                assert np.isnan(values).all()
                continue
            part = with_residuals(stage, seen[POINT][example : example + 1, start:stop])
            expected = instrument.measure(part, points=[POINT]).values[0, ..., 0]
            assert values == pytest.approx(expected, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("positions", ["inputs", (1, 2, 3), ("1", 2), 4])
def test_unknown_positions_are_refused(stage: Stage, positions: Any) -> None:
    with pytest.raises(ValueError, match=r"must be all, input, output or \(start, stop\)"):
        entropy.measure(stage([[1, 2, 3]]), positions=positions)


def test_unknown_settings_are_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="there is: singular_values, eigenvalues"):
        effective_rank.measure(stage([[1, 2, 3]]), of="squares")
    with pytest.raises(ValueError, match="top of at least 1, not 0"):
        spectrum.measure(stage([[1, 2, 3]]), top=0)
    with pytest.raises(ValueError, match="unknown kernel 'rbf'"):
        spectrum.measure(stage([[1, 2, 3]]), kernel="rbf")


TASK = Sorting(q=12, max_length=6)


@pytest.fixture(scope="module")
def model() -> Decoder:
    config = DecoderConfig(n_layers=2, d_model=16, n_heads=2, d_vocab=len(TASK.vocabulary), n_ctx=TASK.n_ctx)
    return Decoder(config, generator(0)).eval()


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def test_streaming_equals_measuring_whole_captures_and_nothing_stands_in_the_way(
    model: Decoder, instrument: Any
) -> None:
    subject = Subject.of(model, TASK, "sorter")
    batch = TASK.sample(20, generator(0, "spectra"))
    whole = instrument.measure(capture(model, subject, batch, instrument.needs(subject)), positions="output")
    found = over_batches(instrument, model, subject, [batch[:7], batch[7:]], positions="output")
    assert found.dims == whole.dims and found.units == whole.units
    assert found.values == pytest.approx(whole.values, abs=1e-5, nan_ok=True)
    assert instrument.why_not(subject) is None and instrument.CONTROLS == ("untrained",)


def test_a_collapsed_model_differs_from_its_untrained_control_in_the_direction_claimed(model: Decoder) -> None:
    """Token embeddings drawn together around one vector: fewer directions, more of the trace on one, more alike."""
    collapsed = untrained(model, generator(0))
    with torch.no_grad():
        table = collapsed.token_embedding.weight
        table.copy_(table.norm(dim=-1).mean() * torch.ones_like(table) + 0.1 * table)
    batch = TASK.sample(40, generator(0, "spectra"), length=6)

    def mean(instrument: Any, of: Decoder, **settings: Any) -> Any:
        return over_batches(instrument, of, Subject.of(of, TASK, ""), [batch], **settings).mean("example")

    control = untrained(model, generator(1))
    for kernel in ({}, {"kernel": "gaussian", "bandwidth": 1.0}, {"kernel": "laplacian", "bandwidth": 1.0}):
        assert (mean(entropy, collapsed, **kernel).high < mean(entropy, control, **kernel).low).all()
    assert (mean(effective_rank, collapsed).high < mean(effective_rank, control).low).all()
    assert (mean(anisotropy, collapsed).low > mean(anisotropy, control).high).all()
    first, of_control = (mean(spectrum, one).select(rank=1) for one in (collapsed, control))
    assert (first.low > of_control.high).all()


def test_entropy_through_a_capture_agrees_with_every_reference_value(stage: Stage, numerics: dict[str, Any]) -> None:
    conventions = {(case["alpha"], case["centre"], case["unit_rows"]) for case in numerics["matrix_entropy"]}
    assert conventions == {(a, c, u) for a in (0.5, 1, 2, 3.5, "inf") for c in (False, True) for u in (False, True)}
    for case in numerics["matrix_entropy"]:
        z = torch.tensor(case["Z"], dtype=torch.float64)
        alpha, how = float(case["alpha"]), {"centre": case["centre"], "unit_rows": case["unit_rows"]}
        found = entropy.measure(with_residuals(stage, z[None]), alpha=alpha, points=[POINT], **how)
        assert found.values.item() == pytest.approx(case["nats"], abs=1e-6 if alpha < 1 else 1e-10)
        if alpha == 1:
            rank = effective_rank.effective_rank(z[None], of="eigenvalues", **how).item()
            assert rank == pytest.approx(math.exp(case["nats"]))
        for name, size in (("log_t", len(z)), ("log_d", z.shape[1]), ("log_min", min(z.shape))):
            share = matrix_entropy(z, alpha=alpha, normalise=name, **how).item()  # type: ignore[arg-type]
            assert share == pytest.approx(case["nats"] / math.log(size), abs=1e-6)
