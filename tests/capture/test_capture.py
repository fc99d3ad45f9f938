"""Captures: what is handed over, when the forward pass stops, what is in memory, what is on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import peak_megabytes
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject, capture, visit
from workbench.capture.store import CaptureStore
from workbench.instruments.residual import entropy, projection
from workbench.instruments.streaming import over_batches
from workbench.measurement import Measurement
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import Batch
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

TASK = Sorting(q=12, max_length=6)
MID, POST = "blocks.0.hook_resid_mid", "blocks.1.hook_resid_post"
PATTERN = "blocks.0.attn.hook_pattern"


@pytest.fixture(scope="module")
def model() -> Decoder:
    config = DecoderConfig(
        n_layers=2, d_model=16, n_heads=2, d_vocab=len(TASK.vocabulary), n_ctx=TASK.n_ctx, attention="standard,chacal"
    )
    return Decoder(config, generator(0)).eval()


@pytest.fixture(scope="module")
def subject(model: Decoder) -> Subject:
    return Subject.of(model, TASK, "sorter")


def batches(n: int = 3) -> Iterator[Batch]:
    """Batches of different sizes and lengths."""
    for i in range(n):
        yield TASK.sample(4 + i, generator(0, "capture", i), split="test", length=3 + i)


@pytest.mark.parametrize("hooked", [False, True])
def test_activations_are_those_of_the_forward_pass(model: Decoder, subject: Subject, hooked: bool) -> None:
    batch = next(batches())
    logits, kept = model(batch.tokens, keep=[MID, POST])
    seen = capture(hook(model) if hooked else model, subject, batch, [POST, MID, LOGITS])
    assert set(seen.activations) == {MID, POST, LOGITS}
    for name, expected in (*kept.items(), (LOGITS, logits)):
        torch.testing.assert_close(seen[name], expected, atol=1e-5, rtol=1e-5)
    assert seen.logits is seen[LOGITS] and not seen.logits.requires_grad


@pytest.mark.parametrize("hooked", [False, True])
def test_the_forward_pass_stops_after_the_last_activation_asked_for(model: Decoder, hooked: bool) -> None:
    runner, ran = hook(model) if hooked else model, []
    later = runner.blocks[1].mlp if hooked else runner.layers[1].mlp
    handle = later.register_forward_hook(lambda *_: ran.append(1))
    order: list[str] = []
    tokens = next(batches()).tokens
    visit(runner, tokens, ["blocks.1.hook_resid_mid", MID], lambda name, _: order.append(name))
    assert order == [MID, "blocks.1.hook_resid_mid"] and not ran
    visit(runner, tokens, [POST], lambda name, _: order.append(name))
    assert len(ran) == 1
    visit(runner, tokens, [], lambda name, _: order.append(name))
    assert len(order) == 3
    handle.remove()
    if hooked:  # nothing is left behind on the model
        torch.testing.assert_close(runner(tokens), model(tokens), atol=1e-5, rtol=1e-5)
        assert not any(point.fwd_hooks for point in runner.hook_dict.values())


def test_an_error_of_the_receiver_leaves_no_hook_behind(model: Decoder) -> None:
    hooked = hook(model)

    def fail(*_: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        visit(hooked, next(batches()).tokens, [MID], fail)
    assert not any(point.fwd_hooks for point in hooked.hook_dict.values())


def test_names_that_a_model_has_not_are_one_clear_line(model: Decoder, subject: Subject) -> None:
    batch = next(batches())
    with pytest.raises(ValueError, match=r"a decoder has no 'blocks.0.attn.hook_pattern' \(its hooked copy may\)"):
        capture(model, subject, batch, [PATTERN])
    with pytest.raises(ValueError, match=r"no hook point 'blocks.2.hook_resid_mid'; .* blocks.0 to blocks.1"):
        capture(hook(model), subject, batch, ["blocks.2.hook_resid_mid"])
    with pytest.raises(ValueError, match=r"'unembed.hook_out' was not captured; there is: blocks.0.hook_resid_mid"):
        _ = capture(model, subject, batch, [MID]).logits


def test_truth_is_found_when_asked_for(model: Decoder, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tensor] = []
    monkeypatch.setattr(Sorting, "truth", lambda self, tokens: asked.append(tokens))
    seen = capture(model, subject, next(batches()), [MID])
    assert not asked
    _ = seen.truth, seen.truth
    assert len(asked) == 1


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize(
    ("instrument", "settings"), [(entropy, {"alpha": 2, "centre": True}), (projection, {"final_norm": True})]
)
def test_measuring_point_by_point_equals_measuring_whole_captures(
    model: Decoder, subject: Subject, instrument: Any, settings: dict[str, Any], hooked: bool
) -> None:
    names = instrument.needs(subject)
    whole = Measurement.join(
        [instrument.measure(capture(hook(model), subject, batch, names), **settings) for batch in batches()]
    )
    found = over_batches(instrument, hook(model) if hooked else model, subject, batches(), **settings)
    assert (found.dims, found.units, found.settings) == (whole.dims, whole.units, whole.settings)
    assert {dim: list(labels) for dim, labels in found.coords.items()} == {
        dim: list(labels) for dim, labels in whole.coords.items()
    }
    torch.testing.assert_close(torch.tensor(found.values), torch.tensor(whole.values), atol=1e-5, rtol=1e-5)
    assert found.mean().n is not None


def test_points_may_be_chosen(model: Decoder, subject: Subject) -> None:
    found = over_batches(entropy, hook(model), subject, batches(), points=["blocks.1.hook_mlp_out", MID])
    assert found.coords["layer"] == ["blocks.1.hook_mlp_out", MID] and found.values.shape == (2, 15)
    with pytest.raises(ValueError, match="no batch"):
        over_batches(entropy, model, subject, [])
    with pytest.raises(ValueError, match="no hook point"):
        over_batches(entropy, model, subject, batches(), points=[])


STREAM = """
from workbench.capture import Subject
from workbench.instruments import entropy
from workbench.instruments.streaming import over_batches
from workbench.models import Decoder, DecoderConfig
from workbench.util.seeds import generator
from workbench.tasks import make
task = make("pointer_chain", n=64, k=8)
config = DecoderConfig(n_layers=4, d_model=128, n_heads=4, d_vocab=len(task.vocabulary), n_ctx=64)
model = Decoder(config, generator(0)).eval()
subject = Subject.of(model, task, "model")
batch = task.sample(64, generator(0), split="test")
over_batches(entropy, model, subject, [batch[:1]])
"""


def test_a_test_set_takes_the_memory_of_one_batch() -> None:
    """Entropy at 9 points over 64 batches, against the forward pass of one."""
    forward = peak_megabytes(STREAM, "with torch.no_grad(): model(batch.tokens)")
    many = "(task.sample(64, generator(i), split='test') for i in range(64))"
    streamed = peak_megabytes(STREAM, f"over_batches(entropy, model, subject, {many})")
    assert 1 < streamed < 1.5 * forward


def stored(folder: Path, model: Decoder, subject: Subject, **options: Any) -> CaptureStore:
    return CaptureStore.write(folder / "captures", hook(model), subject, batches(), [MID, PATTERN, LOGITS], **options)


def test_a_store_gives_back_what_was_captured_by_slice_and_by_batch(
    model: Decoder, subject: Subject, tmp_path: Path
) -> None:
    store = CaptureStore(stored(tmp_path, model, subject).folder)
    whole = [capture(hook(model), subject, batch, [MID, PATTERN, LOGITS]) for batch in batches()]
    assert len(store) == 15
    first, n_pos = 0, whole[-1].batch.tokens.shape[1]
    for seen in whole:
        for i in range(len(seen.batch)):
            length = seen.batch.tokens.shape[1]
            assert torch.equal(store[MID, first + i], seen[MID][i])
            padded = store[PATTERN, :][first + i]
            assert padded.shape == (2, n_pos, n_pos) and torch.equal(padded[:, :length, :length], seen[PATTERN][i])
            assert not padded[:, length:].any() and not padded[:, :, length:].any()
        first += len(seen.batch)
    assert torch.equal(store[MID, 2:4], whole[0][MID][2:4])
    across = store["tokens", 3:5]
    assert torch.equal(across[1], whole[1].batch.tokens[0]) and across[0, -1] == 0
    assert store[MID, 5:5].shape[0] == 0 and store[MID, 99:].shape[0] == 0
    assert torch.equal(store[MID, -1], whole[-1][MID][-1])
    for again, seen in zip(store.captures(subject), whole, strict=True):
        assert torch.equal(again.logits, seen.logits) and torch.equal(again.batch.targets, seen.batch.targets)
        assert torch.equal(again.truth.edges, seen.truth.edges)


def test_a_store_may_be_smaller_than_what_was_captured(model: Decoder, subject: Subject, tmp_path: Path) -> None:
    store = stored(tmp_path, model, subject, dtype=torch.float16)
    assert store[MID, :2].dtype == torch.float16 and store["tokens", :2].dtype == torch.int64


def test_an_interrupted_store_leaves_nothing(model: Decoder, subject: Subject, tmp_path: Path) -> None:
    def breaking() -> Iterator[Batch]:
        yield next(batches())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CaptureStore.write(tmp_path / "captures", model, subject, breaking(), [MID])
    with pytest.raises(ValueError, match="no batch"):
        CaptureStore.write(tmp_path / "captures", model, subject, [], [MID])
    assert not list(tmp_path.iterdir())


def test_a_store_says_what_is_wrong(model: Decoder, subject: Subject, tmp_path: Path) -> None:
    store = stored(tmp_path, model, subject)
    with pytest.raises(ValueError, match=f"'{POST}' was not captured; there is: "):
        _ = store[POST, :3]
    with pytest.raises(ValueError, match="without a step of 2"):
        _ = store[MID, ::2]
    with pytest.raises(IndexError, match="no row 15; the store has 15"):
        _ = store[MID, 15]
    with pytest.raises(ValueError, match="exists already"):
        stored(tmp_path, model, subject)
    with pytest.raises(ValueError, match="captures of 'sorter', not of 'other'"):
        next(store.captures(Subject.of(model, TASK, "other")))
    with pytest.raises(ValueError, match=r"holds no captures: it has no index.json"):
        CaptureStore(tmp_path)
    (store.folder / "shard-00001.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"shard-00001.safetensors is damaged"):
        _ = store[MID, 5]
    (store.folder / "shard-00001.safetensors").unlink()
    with pytest.raises(ValueError, match="1 of 3 shards are missing"):
        CaptureStore(store.folder)
    index = json.loads((store.folder / "index.json").read_text())
    (store.folder / "index.json").write_text(json.dumps({**index, "shards": ["../../x"]}))
    with pytest.raises(ValueError, match=r"index.json is damaged: shards"):
        CaptureStore(store.folder)


def test_a_capture_is_of_one_batch(model: Decoder, subject: Subject) -> None:
    seen = capture(model, subject, next(batches()), [MID])
    assert isinstance(seen, Capture) and len(seen[MID]) == len(seen.batch)
