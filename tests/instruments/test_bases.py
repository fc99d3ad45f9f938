"""Coordinates in bases that are not orthogonal, what they leave unexplained, and how bases overlap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.instruments.residual import projection, unexplained
from workbench.instruments.weights import basis_overlap
from workbench.models.compiled import sorter
from workbench.tasks import make
from workbench.util.seeds import generator

Stage = Callable[..., Capture]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, "bases"))


def with_bases(stage: Stage, encoder: Tensor, decoder: Tensor) -> Subject:
    return replace(stage([[0, 1, 2]]).subject, encoder=encoder, decoder=decoder)


@given(n=st.integers(1, 12), d=st.integers(1, 12), rank=st.integers(1, 12), seed=st.integers(0, 99))
def test_coordinates_are_least_squares_of_least_norm(n: int, d: int, rank: int, seed: int) -> None:
    basis = random(n, rank, seed=seed) @ random(rank, d, seed=seed + 1)  # float32, often of less than full rank
    x = random(3, d, seed=seed + 2).double()
    found = projection.project(x, projection._dual(basis))
    expected = np.linalg.lstsq(basis.double().numpy().T, x.numpy().T, rcond=12 * 1.2e-7)[0].T
    assert found.numpy() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_half_precision_weights_keep_their_rank() -> None:
    basis = random(8, 64)
    assert unexplained.span(basis.bfloat16()).shape == unexplained.span(basis).shape == (64, 8)


def test_coordinates_give_back_what_the_residual_was_made_of(stage: Stage) -> None:
    encoder = random(5, 8)
    subject = with_bases(stage, encoder, encoder)
    weights = torch.tensor([0.0, 3.0, 0.0, -1.0, 0.5])
    found = projection.components(subject, weights @ encoder, "encoder", how="coordinates")
    assert found.numpy() == pytest.approx(weights.numpy(), abs=1e-6)


def test_every_way_agrees_on_an_orthonormal_basis(stage: Stage) -> None:
    basis = torch.linalg.qr(random(8, 8).double()).Q[:5]
    subject, x = with_bases(stage, basis, basis), random(4, 8).double()
    raw, cosine, coordinates = (
        projection.components(subject, x, "decoder", how=how, final_norm=False) for how in projection.UNITS
    )
    assert torch.allclose(raw, coordinates) and torch.allclose(raw / x.norm(dim=-1, keepdim=True), cosine)


def test_a_longer_basis_vector_wins_by_inner_product_and_not_by_cosine(stage: Stage) -> None:
    basis = torch.tensor([[1.0, 0.0], [10.0, 10.0]])
    subject, x = with_bases(stage, basis, basis), torch.tensor([1.0, 0.1])
    assert projection.components(subject, x, "encoder").argmax() == 1
    assert projection.components(subject, x, "encoder", how="cosine").argmax() == 0


def test_the_cosine_with_a_zero_vector_is_zero(stage: Stage) -> None:
    basis = torch.tensor([[0.0, 0.0], [0.0, 2.0]])
    subject = with_bases(stage, basis, basis)
    assert projection.components(subject, torch.tensor([1.0, 1.0]), "encoder", how="cosine")[0] == 0
    assert projection.components(subject, torch.zeros(2), "encoder", how="cosine").tolist() == [0, 0]


def test_an_unknown_way_to_project_is_refused_with_those_that_exist(stage: Stage) -> None:
    with pytest.raises(ValueError, match=r"unknown projection 'cosin'.*'cosine'.*coordinates, cosine, raw"):
        projection.measure(stage([[0, 1]]), how="cosin")  # type: ignore[arg-type]


def test_the_share_outside_a_span_is_that_of_the_part_at_right_angles(stage: Stage) -> None:
    encoder, decoder = torch.eye(4)[:1], torch.eye(4)[[0, 0, 1]] * 5
    residual = torch.tensor([1.0, 2.0, 3.0, 0.0])
    found = {
        name: float(unexplained._share_outside(residual, columns))
        for name, columns in unexplained._spans(with_bases(stage, encoder, decoder)).items()
    }
    assert found == pytest.approx({"encoder": 13 / 14, "decoder": 9 / 14, "both": 9 / 14})


def test_a_basis_of_full_rank_explains_everything(stage: Stage) -> None:
    found = unexplained.measure(stage([list(range(10))], d_model=8))
    assert found.settings["rank"] == {"encoder": 8, "decoder": 8, "both": 8}
    assert found.values == pytest.approx(np.zeros((3, 5, 1)), abs=1e-12)


def test_padding_has_no_part_in_what_is_unexplained(stage: Stage) -> None:
    point = "blocks.0.hook_resid_mid"
    seen = stage([[1, 2, 6]], pad=6, d_model=16)
    shares = unexplained._share_outside(seen[point][0], unexplained.span(seen.subject.encoder))
    found = unexplained.measure(seen).select(basis="encoder", point=point, example=0)
    assert float(found.values) == pytest.approx(float(shares[:2].mean())) != pytest.approx(float(shares.mean()))


@pytest.mark.parametrize("rotate_seed", [None, 1])
def test_a_third_of_the_sorter_s_residual_is_in_neither_basis_after_its_first_layer(rotate_seed: int | None) -> None:
    """E, T and D hold one token each, so shares are thirds; encoder spans E, decoder D, and T is in neither."""
    task = make("sorting", q=10, max_length=6)
    model = sorter(10, rotate_seed, task.n_ctx, pad=True)
    subject = Subject.of(model, task, "sorter")
    batch = task.sample(32, generator(0), length=6, repeats=1)
    found = unexplained.measure(capture(model, subject, batch, unexplained.needs(subject)))
    assert found.settings["rank"] == {"encoder": 11, "decoder": 11, "both": 22}
    embedding = found.select(point="blocks.0.hook_resid_pre").mean()
    assert embedding.values == pytest.approx([0, 1, 0], abs=1e-6)
    # Exact but for e^-8β ln n of the first position's attention, where ln n = 0, and of copies: none here.
    mid = found.select(point="blocks.0.hook_resid_mid").mean()
    assert mid.values == pytest.approx([2 / 3, 2 / 3, 1 / 3], abs=1e-3)


def test_orthonormal_bases_do_not_overlap_and_tied_ones_coincide(stage: Stage) -> None:
    eye = torch.eye(8)
    apart = basis_overlap.measure(with_bases(stage, eye[:4], eye[4:]))
    assert apart.values[:4] == pytest.approx([0, 0, 0, 0])
    tied = basis_overlap.measure(with_bases(stage, 3 * eye[:4], eye[:4]))
    assert (
        tied.values[:4] == pytest.approx([0, 0, 1, 0]) and tied.n is not None and tied.n.tolist() == [12, 12, 4, 12, 0]
    )


def test_random_bases_overlap_as_much_as_random_directions_do(stage: Stage) -> None:
    d = 48
    found = basis_overlap.measure(with_bases(stage, random(1500, d), random(1500, d, seed=1)))
    assert found.values[[0, 1, 3]] == pytest.approx(np.full(3, found.values[4]), rel=0.01)
    assert found.values[4] == pytest.approx(math.sqrt(2 / (math.pi * d)), rel=0.01)


def test_tokens_without_a_vector_have_no_overlap(stage: Stage) -> None:
    encoder, decoder = random(4, 6), random(4, 6, seed=1)
    some = basis_overlap.measure(with_bases(stage, encoder[:3], decoder[:3]))
    padded = with_bases(
        stage, encoder * torch.tensor([[1.0], [1], [1], [0]]), decoder * torch.tensor([[1.0], [1], [1], [0]])
    )
    assert basis_overlap.measure(padded).values == pytest.approx(some.values)
    assert np.isnan(basis_overlap.basis_cosines(padded).values[:, 3]).all()


def test_cosines_are_named_and_can_be_of_some_tokens(stage: Stage) -> None:
    subject = stage([[0, 1, 2]]).subject
    found = basis_overlap.basis_cosines(subject, tokens=[2, 0])
    assert found.dims == ("pair", "first", "second") and list(found.coords["first"]) == ["w2", "w0"]
    expected = torch.cosine_similarity(subject.encoder[2], subject.decoder[0], dim=0)
    assert found.select(pair="across", first="w2", second="w0").values == pytest.approx(float(expected))
