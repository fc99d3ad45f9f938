"""Modular addition by a few frequencies: written by hand, they are named, needed and followed; elsewhere, none is.

The planted model adds cos and sin of both numbers by uniform attention, so that = holds, for each frequency w, a vector
of angle w(a + b)/2; the MLP's neurons read it along many angles φ, and Σ |cos(θ − φ)| e^(2iφ) has twice the angle.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench
from workbench.capture import Subject, capture
from workbench.inspection.progress_measures import CURVES, _all_logits, _losses, _sum_waves, progress_measures
from workbench.instruments.weights import fourier
from workbench.mechanisms import fourier_addition
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks.modular_addition import ModularAddition
from workbench.util.seeds import generator

P, KEY, ANGLES = 53, (3, 8, 14, 23), 32
TASK = ModularAddition(p=P)


@torch.no_grad()
def by_waves(noise: float = 0.0) -> Decoder:
    """A decoder whose answers are waves in a + b at `KEY`; the embedding has noise where nothing reads it."""
    k = len(KEY)
    shape = {"d_model": 6 * k, "n_heads": 1, "d_head": 2 * k, "d_mlp": k * ANGLES, "d_vocab": P + 1, "n_ctx": 3}
    model = Decoder(DecoderConfig(n_layers=1, norm="none", positions="none", activation="relu", **shape), generator(0))
    for parameter in model.parameters():
        parameter.zero_()
    number, layer = torch.arange(P), model.layers[0]
    angles = torch.arange(ANGLES) * 2 * math.pi / ANGLES
    for i, key in enumerate(KEY):
        turn, at = 2 * math.pi * key * number / P, slice(2 * i, 2 * i + 2)
        model.token_embedding.weight[:P, at] = torch.stack([turn.cos(), turn.sin()], dim=1)
        layer.attn.v.weight[at, at] = 3 * torch.eye(2)  # attention divides by 3
        layer.attn.o.weight[2 * k + 2 * i : 2 * k + 2 * i + 2, at] = torch.eye(2)
        neurons = slice(i * ANGLES, (i + 1) * ANGLES)
        layer.mlp.fc_in.weight[neurons, 2 * k + 2 * i : 2 * k + 2 * i + 2] = torch.stack(
            [angles.cos(), angles.sin()], 1
        )
        out = torch.stack([(2 * angles).cos(), (2 * angles).sin()])
        layer.mlp.fc_out.weight[4 * k + 2 * i : 4 * k + 2 * i + 2, neurons] = out
        model.unembedding.weight[:P, 4 * k + 2 * i : 4 * k + 2 * i + 2] = torch.stack([turn.cos(), turn.sin()], dim=1)
    model.token_embedding.weight[:P, 4 * k :] = noise * torch.randn(P, 2 * k, generator=generator(1))
    return model.eval()


def subject_of(model: Decoder) -> Subject:
    return Subject.of(model, TASK, "by waves")


def random_model() -> Decoder:
    return Decoder(DecoderConfig(n_layers=1, d_model=24, n_heads=2, d_vocab=P + 1, n_ctx=3), generator(0)).eval()


def test_waves_are_an_orthonormal_basis_and_shares_those_of_numpys_transform() -> None:
    for p in (7, 12, 53):
        waves, _ = fourier._waves(p)
        assert torch.allclose(waves @ waves.T, torch.eye(p, dtype=torch.float64), atol=1e-12)
        rows = torch.randn(p, 5, generator=generator(p), dtype=torch.float64)
        power = (np.abs(np.fft.rfft(rows.numpy(), axis=0)) ** 2).sum(1)[1:]
        power[: (p - 1) // 2] *= 2  # of k and of −k
        assert fourier._shares(rows).numpy() == pytest.approx(power / power.sum(), abs=1e-12)
    assert not fourier._shares(torch.ones(7, 3)).any()


def test_planted_frequencies_are_named_and_random_vectors_name_none() -> None:
    measured = fourier.measure(subject_of(by_waves(noise=0.3)))
    assert measured.values.sum(1) == pytest.approx([1, 1, 1]) and measured.dims == ("matrix", "frequency")
    for matrix, named in measured.settings["key"].items():
        assert set(named) == set(KEY), matrix
    false_alarms = [
        bool(fourier.key_frequencies(torch.randn(P, 64, generator=generator(seed, "rows")))) for seed in range(60)
    ]
    assert np.mean(false_alarms) < 0.1


def test_without_a_frequency_nothing_of_it_is_left_and_the_rest_is_as_it_was() -> None:
    rows = torch.randn(P, 4, generator=generator(2), dtype=torch.float64)
    share, left = fourier._shares(rows), fourier._shares(fourier.without(rows, [5, 9]))
    assert left[[4, 8]].abs().max() < 1e-25
    kept = [i for i in range(P // 2) if i not in (4, 8)]
    assert torch.allclose(left[kept], share[kept] / share[kept].sum())
    every = fourier.without(rows, range(1, P // 2 + 1))
    assert torch.allclose(every, rows.mean(0).expand(P, 4))
    with pytest.raises(ValueError, match="1 to 26, not 27"):
        fourier.without(rows, [27])


def test_the_planted_model_adds_and_the_claim_holds_with_its_causal_test() -> None:
    model = by_waves(noise=0.3)
    batch, subject, hooked = TASK.every(), subject_of(model), hook(model)
    right = _all_logits(model, TASK).argmax(-1).flatten() == batch.targets[:, 2]
    assert right.float().mean() == 1
    scored = fourier_addition.score(capture(hooked, subject, batch, fourier_addition.needs(subject)))
    assert scored.values.mean() == 1 and set(scored.settings["frequencies"]) == set(KEY)
    causal = fourier_addition.causal(hooked, subject, TASK.sample(200, generator(3)), generator(4))
    assert causal.select(edit="claimed", outcome="as claimed").values.mean() == 1
    assert causal.select(edit="elsewhere", outcome="changed").values.mean() == 0


def test_taking_the_key_frequencies_away_loses_the_answer_and_taking_others_does_not() -> None:
    model = by_waves(noise=0.3)
    removed = fourier_addition.ablation(hook(model), subject_of(model), TASK.sample(300, generator(5)), KEY).mean()
    values = dict(zip(removed.coords["edit"], removed.values.tolist(), strict=True))
    assert values["none"] == 1 and values["removed"] < 0.1 and values["others removed"] == 1
    for some in (KEY[:1], KEY[1:]):  # a single frequency is enough: all of them have to go
        part = fourier_addition.ablation(hook(model), subject_of(model), TASK.sample(300, generator(5)), some).mean()
        assert part.select(edit="removed").values == 1


def test_of_a_model_that_knows_nothing_the_claim_fails_and_nothing_is_tested() -> None:
    model = random_model()
    batch, subject, hooked = TASK.sample(200, generator(6)), Subject.of(model, TASK, "nothing"), hook(model)
    scored = fourier_addition.score(capture(hooked, subject, batch, fourier_addition.needs(subject)))
    assert scored.values.mean() < 0.1
    assert np.isnan(fourier_addition.causal(hooked, subject, batch, generator(7)).values).all()


def test_other_tasks_are_refused_in_words() -> None:
    chain = workbench.tasks.make("pointer_chain", n=8, k=2)
    subject = Subject.of(random_model(), chain, "chain")
    assert "no modular addition" in str(fourier_addition.why_not(subject))
    assert "not about numbers modulo p" in str(fourier.why_not(subject))
    with pytest.raises(ValueError, match="no modular addition"):
        fourier_addition.ablation(hook(random_model()), subject, chain.sample(2, generator(0)), [1])


def explicit(logits: np.ndarray, frequencies: list[int]) -> np.ndarray:
    """The projection on cos and sin of 2πk(a + b)/p, term by term."""
    p, kept = len(logits), np.zeros_like(logits)
    a, b = np.meshgrid(np.arange(p), np.arange(p), indexing="ij")
    for k in frequencies:
        for wave in (np.cos(2 * np.pi * k * (a + b) / p), np.sin(2 * np.pi * k * (a + b) / p)):
            unit = wave / np.sqrt((wave**2).sum())
            kept += unit[..., None] * np.tensordot(unit, logits, axes=((0, 1), (0, 1)))
    return kept


def test_restricted_and_excluded_loss_are_those_of_the_paper() -> None:
    p, key = 11, [2, 5]
    logits = torch.randn(p, p, p, generator=generator(8), dtype=torch.float64)
    kept = explicit(logits.numpy(), key)
    assert _sum_waves(logits, key).numpy() == pytest.approx(kept, abs=1e-12)
    trained = torch.rand(p, p, generator=generator(9)) < 0.4
    answer = (torch.arange(p)[:, None] + torch.arange(p)) % p

    def cross_entropy(some: np.ndarray, where: Tensor) -> float:
        values = [
            -some[a, b, answer[a, b]] + np.log(np.exp(some[a, b]).sum())
            for a in range(p)
            for b in range(p)
            if where[a, b]
        ]
        return float(np.mean(values))

    found = _losses(logits, trained, key)
    mean = logits.mean((0, 1)).numpy()
    assert found["restricted loss"] == pytest.approx(cross_entropy(kept + mean, torch.ones(p, p)), abs=1e-6)
    assert found["excluded loss"] == pytest.approx(cross_entropy(logits.numpy() - kept, trained), abs=1e-6)
    assert found["train loss"] == pytest.approx(cross_entropy(logits.numpy(), trained), abs=1e-6)
    assert found["test loss"] == pytest.approx(cross_entropy(logits.numpy(), ~trained), abs=1e-6)


def test_answers_by_heart_need_no_wave_and_answers_by_waves_nothing_else() -> None:
    answer = (torch.arange(P)[:, None] + torch.arange(P)) % P
    trained = ~TASK.is_test(TASK.every().tokens).view(P, P)
    by_heart = 20 * torch.nn.functional.one_hot(answer, P).double() * trained[..., None]
    heart = _losses(by_heart, trained, KEY)
    assert heart["train loss"] < 0.01 < 1 < heart["restricted loss"] and heart["excluded loss"] < 0.1
    waves = _losses(_all_logits(by_waves(), TASK), trained, KEY)
    assert waves["test accuracy"] == 1 and waves["excluded loss"] > math.log(P) - 0.5
    assert waves["restricted loss"] < 0.1
    with pytest.raises(ValueError, match="1 to 26, not 40"):
        _losses(by_heart, trained, [40])


def test_every_checkpoint_of_a_run_is_measured_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    task = {"name": "modular_addition", "p": 11}
    small = {"model": {"n_layers": 1, "d_model": 16, "n_heads": 2}, "batch_size": 16, "eval_size": 16, "steps": 4}
    config = {"task": task, "objectives": {"next_token": {}}, **small}
    run = workbench.train(config, out=tmp_path / "run", progress=False, checkpoint_every=2)
    measured = progress_measures(run, frequencies=[1, 3])
    assert measured.coords["step"] == [0, 2, 4] and measured.values.shape == (len(CURVES), 3)
    assert np.isfinite(measured.values).all() and measured.settings["frequencies"] == [1, 3]
    with pytest.raises(ValueError, match="names no key frequency"):
        progress_measures(run)
    bare = workbench.train(config, out=tmp_path / "bare", progress=False)
    with pytest.raises(ValueError, match="checkpoint_every"):
        progress_measures(bare, frequencies=[1])
    other = workbench.train("chain-standard", out=tmp_path / "other", progress=False, steps=0, eval_size=8)
    with pytest.raises(ValueError, match="task is pointer_chain"):
        progress_measures(other, frequencies=[1])
