"""Circuits of heads in the weights: TransformerLens's on the same models, planted ones, and ChaCAL's resolvent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.capture import Subject
from workbench.instruments.weights import composition, token_circuits
from workbench.instruments.weights.heads import HeadWeights
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("pointer_chain", n=12, k=3)


def decoder(variant: str = "standard", **shape: object) -> Decoder:
    wanted = {"n_layers": 3, "d_model": 24, "n_heads": 4, "d_head": 5, "d_vocab": 12, "n_ctx": 12, **shape}
    model = Decoder(DecoderConfig(attention=variant, **wanted), generator(0))  # type: ignore[arg-type]
    draws = generator(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draws))
    return model.eval()


def subject_of(model: Decoder) -> Subject:
    return Subject.of(model, TASK, "model")


@pytest.mark.parametrize("variant", ["standard", "chacal"])
@pytest.mark.parametrize("n_kv_heads", [4, 2])
def test_composition_scores_are_transformer_lenss(variant: str, n_kv_heads: int) -> None:
    model = decoder(variant, n_kv_heads=n_kv_heads)
    hooked, ours = hook(model), composition.measure(subject_of(model))
    assert ours.dims == ("kind", "layer", "head", "of layer", "of head")
    for kind in composition.KINDS:
        theirs = hooked.all_composition_scores(kind).scores.detach().numpy()
        own = ours.select(kind=kind).values
        assert np.nan_to_num(own) == pytest.approx(theirs, abs=1e-5), kind
        earlier = np.arange(3)[:, None] < np.arange(3)
        assert (np.isnan(own) == ~np.broadcast_to(earlier[:, None, :, None], own.shape)).all()


def test_circuits_and_their_singular_vectors_are_transformer_lenss() -> None:
    model = decoder()
    hooked, subject = hook(model), subject_of(model)
    encoder, unembed = model.token_embedding.weight.detach(), model.unembedding.weight.detach()
    for kind, factored, right in (("QK", hooked.QK, encoder.T), ("OV", hooked.OV, unembed.T)):
        scale = 5**-0.5 if kind == "QK" else 1.0  # theirs is before it
        stretch = token_circuits.stretch(subject, 2)  # theirs has no norm: of the query and the key, or of what is read
        whole = scale * stretch ** (2 if kind == "QK" else 1) * encoder @ factored.AB[2, 1].detach() @ right
        assert token_circuits.circuit(subject, 2, 1, kind).values == pytest.approx(whole.numpy(), abs=1e-5)
        u, sigma, vh = (part[2, 1].detach() for part in factored.svd())
        sigma = scale * sigma
        found = token_circuits.singular_vectors(subject, 2, 1, kind, top=12)
        assert found.settings["singular_values"] == pytest.approx(sigma.tolist()[:5], abs=1e-5)
        vectors = vh if vh.shape[-1] == 5 else vh.T
        for side, basis, theirs in (("reads", encoder, u), ("writes", right.T, vectors)):
            components = (theirs[:, :5].T @ basis.T).abs().sort(-1, descending=True).values
            ours = np.sort(np.abs(found.select(side=side).values), axis=-1)[:, ::-1]
            assert ours == pytest.approx(components.numpy(), abs=1e-5), (kind, side)


@torch.no_grad()
def test_of_positions_a_circuit_is_the_score_that_one_token_at_two_places_has() -> None:
    """Without a norm, scores are the sum of all four terms: of tokens, of positions, and of one with the other."""
    model = decoder(norm="none", n_layers=1)
    for projection in ("q", "k"):
        getattr(model.layers[0].attn, projection).bias.zero_()
    hooked, subject = hook(model), subject_of(model)
    tokens = torch.tensor([[3, 7, 1, 3, 11]])
    _, cache = hooked.run_with_cache(tokens)
    values = {kind: token_circuits.circuit(subject, 0, 2, kind).values for kind in token_circuits.circuits_of(subject)}
    by_position, between = values["QK token-position"], values["QK position-position"]
    embedded, at = model.token_embedding.weight.double(), model.position_embedding(torch.arange(5)).double()
    into, out = HeadWeights.of(subject).of_head(0, 2, "QK")
    for query in range(5):
        for key in range(query + 1):
            a, b = int(tokens[0, query]), int(tokens[0, key])
            rest = float(at[query] @ into @ out @ embedded[b])  # of a position with a token
            total = values["QK"][a, b] + by_position[a, key] + between[query, key] + rest
            assert total == pytest.approx(float(cache["blocks.0.attn.hook_attn_scores"][0, 2, query, key]), abs=1e-5)
    spread = token_circuits.spreads(subject, 0, 2)
    assert spread.coords["circuit"] == ["QK", "QK token-position", "QK position-position"]
    assert spread.values[1] == pytest.approx(np.sqrt(by_position.var(axis=1).mean()))
    long = subject_of(decoder(n_ctx=5000, n_layers=1))  # too many positions for a matrix of pairs
    assert token_circuits.spreads(long, 0, 0).coords["circuit"] == ["QK"]
    with pytest.raises(ValueError, match="5,000 positions have too many pairs"):
        token_circuits.circuit(long, 0, 0, "QK token-position")
    turning = subject_of(decoder(positions="rotary", d_head=4))
    assert (
        token_circuits.circuits_of(turning) == ["QK", "OV"] and len(token_circuits.spreads(turning, 0, 0).values) == 1
    )


def test_singular_vectors_make_the_circuit_and_their_labels_are_its_tokens() -> None:
    weights = HeadWeights.of(subject_of(decoder()))
    into, out = (factor[0, 2] for factor in weights.circuit("OV"))
    u, sigma, v = token_circuits._factored_svd(into, out)
    assert torch.allclose(u @ sigma.diag() @ v.T, into @ out, atol=1e-10)
    assert (sigma.diff() <= 0).all() and torch.allclose(u.T @ u, torch.eye(5, dtype=torch.float64), atol=1e-10)
    found = token_circuits.singular_vectors(subject_of(decoder()), 0, 2, "OV", top=3)
    assert found.labels is not None and found.labels.shape == found.values.shape == (5, 2, 3)
    assert set(found.labels.flatten()) <= set(TASK.vocabulary.words)


@torch.no_grad()
def test_a_planted_head_copies_and_matches_and_random_ones_do_not() -> None:
    model = decoder(d_model=12, d_head=12, n_layers=1, positions="none")
    model.token_embedding.weight.copy_(torch.eye(12))
    model.unembedding.weight.copy_(torch.eye(12))
    for name in ("q", "k", "v", "o"):
        getattr(model.layers[0].attn, name).weight[:12, :12] = torch.eye(12)
    found = token_circuits.measure(subject_of(model))
    assert found.values[:, 0, 0] == pytest.approx([1, 1])
    assert np.abs(found.values[:, 0, 1:]).max() < 0.8
    model.layers[0].attn.o.weight[:12, :12] = -torch.eye(12)
    turned = token_circuits.measure(subject_of(model))
    assert turned.values[:, 0, 0] == pytest.approx([-1, 1])
    ov = token_circuits.circuit(subject_of(model), 0, 0, "OV").values
    assert ov == pytest.approx(-token_circuits.stretch(subject_of(model), 0) * np.eye(12), abs=1e-6)


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm", "none"])
@torch.no_grad()
def test_scores_of_what_is_embedded_are_as_large_as_in_the_model(norm: str) -> None:
    """However small embeddings begin: the norm makes them as long as queries and keys read them."""
    model = decoder(norm=norm, n_layers=1)
    for name in ("token_embedding", "position_embedding"):
        getattr(model, name).weight.mul_(0.02)
    if norm != "none":
        model.layers[0].ln1.weight.fill_(1.5)
    for projection in ("q", "k"):
        getattr(model.layers[0].attn, projection).bias.zero_()
    hooked, subject = hook(model), subject_of(model)
    tokens = torch.randint(12, (64, 5), generator=torch.Generator().manual_seed(0))
    _, cache = hooked.run_with_cache(tokens)
    seen = cache["blocks.0.attn.hook_attn_scores"][:, 2, 4]  # of the last position, with every key
    spread = token_circuits.spreads(subject, 0, 2).values
    assert float(seen.std(-1, correction=0).square().mean().sqrt()) == pytest.approx(
        float(np.sqrt((spread**2).sum())), rel=0.5
    )


def test_the_eigenvalues_are_those_of_the_whole_circuit() -> None:
    subject = subject_of(decoder())
    found = token_circuits.measure(subject)
    for number, kind in ((0, "OV"), (1, "QK")):
        values = np.linalg.eigvals(token_circuits.circuit(subject, 1, 3, kind).values)
        assert found.values[number, 1, 3] == pytest.approx(values.real.sum() / np.abs(values).sum(), abs=1e-4)


@torch.no_grad()
def test_a_planted_composition_is_found() -> None:
    model = decoder(n_layers=2)
    first, second = model.layers[0].attn, model.layers[1].attn
    second.k.weight[:5] = first.o.weight[:, 5:10].T  # head 0 of layer 1 has as keys what head 1 of layer 0 writes
    scores = composition.measure(subject_of(model)).select(kind="K").values[0, :, 1]
    assert np.unravel_index(scores.argmax(), scores.shape) == (1, 0)


def test_what_a_chacal_head_would_read_is_the_resolvent_of_its_pattern_and_a_standard_heads_the_pattern() -> None:
    standard = token_circuits.reads(subject_of(decoder()), 1, 2)
    assert standard.select(matrix="mixing").values == pytest.approx(standard.select(matrix="pattern").values, abs=1e-6)
    assert standard.values.sum(-1) == pytest.approx(1)
    model = decoder("chacal")
    found = token_circuits.reads(subject_of(model), 1, 2)
    a, gamma = found.select(matrix="pattern").values, model.attention[1].gamma
    inner = a - np.diag(a.diagonal())
    expected = (1 - gamma) * a @ np.linalg.inv(np.eye(12) - gamma * inner)
    assert found.select(matrix="mixing").values == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["QK", "OV"])
def test_what_directions_give_to_an_entry_sums_to_it(kind: str) -> None:
    subject = subject_of(decoder())
    found = token_circuits.path(subject, 1, 2, kind, start=3, end=7)
    entry = token_circuits.circuit(subject, 1, 2, kind).values[3, 7]
    assert found.values.sum() == pytest.approx(entry, abs=1e-9) and found.settings["entry"] == pytest.approx(entry)
    assert len(found.values) == 5 and (found.settings["from"], found.settings["to"]) == ("3", "7")
    with pytest.raises(ValueError, match="no token 12"):
        token_circuits.path(subject, 1, 2, kind, start=12, end=0)


def test_what_cannot_be_read_is_refused_in_words() -> None:
    subject = subject_of(decoder())
    with pytest.raises(ValueError, match="layers are 0 to 2, heads 0 to 3"):
        token_circuits.circuit(subject, 3, 0, "QK")
    with pytest.raises(ValueError, match="QK, QK token-position, QK position-position, OV, not 'VO'"):
        token_circuits.circuit(subject, 0, 0, "VO")
    assert "one layer" in str(composition.why_not(subject_of(decoder(n_layers=1))))
