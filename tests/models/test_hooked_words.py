"""TransformerLens's functions of words on our own decoders: they speak the task's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformer_lens.head_detector import detect_head

from workbench import tasks
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import HookedDecoder, hook
from workbench.runs.compiled import compile_run
from workbench.tasks import Task
from workbench.util.seeds import generator

VARIANTS = pytest.mark.parametrize("attention", ["standard", "chacal", "tempered", "tempered_chacal"])


def spoken(task: Task, attention: str = "standard") -> tuple[Decoder, HookedDecoder]:
    config = DecoderConfig(
        n_layers=2, d_model=16, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, attention=attention
    )
    model = Decoder(config, generator(0)).eval()
    hooked = hook(model)
    hooked.speak(task.fast_tokenizer())
    return model, hooked


def sorting() -> Task:
    return tasks.make("sorting", q=8, min_length=2, max_length=6)


@VARIANTS
@torch.no_grad()
def test_words_are_read_and_written(attention: str) -> None:
    task = sorting()
    model, hooked = spoken(task, attention)
    ids = torch.tensor([task.vocabulary.encode("5 3 8 ⊥")])
    assert torch.equal(hooked.to_tokens("5 3 8 ⊥"), ids)
    assert hooked.to_str_tokens("5 3 8 ⊥") == ["5", "3", "8", "⊥"] == hooked.to_str_tokens(ids)
    assert hooked.to_string(ids[0]) == "5 3 8 ⊥" and hooked.to_string(ids) == ["5 3 8 ⊥"]
    assert hooked.to_single_token("⊥") == task.vocabulary.id("⊥") and hooked.to_single_str_token(0) == "1"
    assert hooked.get_token_position("8", "5 3 8 ⊥") == 2
    assert torch.equal(hooked.tokens_to_residual_directions("3"), hooked.W_U[:, 2])
    torch.testing.assert_close(hooked("5 3 8 ⊥"), model(ids))
    logits, cache = hooked.run_with_cache("5 3 8 ⊥")
    torch.testing.assert_close(logits, model(ids))
    assert cache["pattern", 0].shape == (1, 2, 4, 4)


@VARIANTS
def test_it_goes_on_from_words_as_the_decoder_does(attention: str) -> None:
    task = sorting()
    model, hooked = spoken(task, attention)
    options: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "verbose": False}
    prompts = ["5 3 8 ⊥", "1 2 6 ⊥"]
    tokens = model.generate(hooked.to_tokens(prompts), 4)
    expected = [" ".join(word for word in task.words(row) if word != "PAD") for row in tokens]
    assert hooked.generate(prompts[0], **options) == expected[0]
    assert hooked.generate(prompts, **options) == expected
    assert torch.equal(hooked.generate(prompts, return_type="tokens", **options), torch.stack(list(tokens)))


@VARIANTS
def test_the_head_detector_takes_a_text(attention: str) -> None:
    _, hooked = spoken(sorting(), attention)
    for name in ("previous_token_head", "duplicate_token_head", "induction_head"):
        scores = detect_head(hooked, "5 3 8 5 3 ⊥", name)
        assert scores.shape == (2, 2) and bool(((scores >= 0) & (scores <= 1)).all())


def test_texts_of_different_lengths_are_padded_on_the_right() -> None:
    task = sorting()
    model, hooked = spoken(task)
    tokens = hooked.to_tokens(["5 3 ⊥", "5 3 8 1 ⊥"])
    assert tokens[0].tolist()[3:] == [task.pad] * 2
    torch.testing.assert_close(hooked(["5 3 ⊥", "5 3 8 1 ⊥"])[0, :3], model(tokens[:1, :3])[0])
    with pytest.raises(ValueError, match="none on the left: give texts of one length"):
        hooked.generate(["5 3 ⊥", "5 3 8 1 ⊥"], max_new_tokens=2)
    _, hooked = spoken(tasks.make("pointer_chain", n=8, k=2))
    with pytest.raises(ValueError, match="its task has no padding"):
        hooked.to_tokens(["1 2", "1 2 3"])


def test_what_is_no_word_is_refused_in_one_line() -> None:
    _, hooked = spoken(sorting())
    with pytest.raises(ValueError, match="token 'x' is not in the vocabulary of 10 tokens: 1 2 3"):
        hooked.to_tokens("5 x 3")
    with pytest.raises(ValueError, match="no token that begins a text"):
        hooked.to_tokens("5 3", prepend_bos=True)
    with pytest.raises(ValueError, match="use generate"):
        hooked.hf_generate("5 3")
    with pytest.raises(ValueError, match="has the token id 33, and the model knows 10 tokens"):
        hooked.speak(tasks.make("sorting", q=32).fast_tokenizer())


def test_a_text_of_bytes_is_read_as_it_stands() -> None:
    _, hooked = spoken(tasks.make("text", path="shakespeare", block=16))
    assert hooked.to_tokens("To be é").tolist() == [list("To be é".encode())]
    assert hooked.to_str_tokens("To be") == ["T", "o", " ", "b", "e"]


def test_a_run_speaks_the_words_of_its_task(tmp_path: Path) -> None:
    """A sorter whose weights are worked out by hand sorts what is typed."""
    hooked = compile_run("sorter", tmp_path / "run", {"q": 6, "max_length": 6}).hooked()
    options: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False, "verbose": False}
    assert hooked.generate("5 3 1 ⊥", **options) == "5 3 1 ⊥ 1 3 5"
