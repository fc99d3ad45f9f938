"""Every task's vocabulary as a tokenizer of Hugging Face: the same ids, the same words, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from workbench import tasks
from workbench.tasks import Task
from workbench.tasks.vocabulary import Vocabulary
from workbench.util.seeds import generator

SETTINGS: dict[str, dict[str, Any]] = {"text": {"path": "shakespeare", "block": 40}}


def made(name: str) -> Task:
    return tasks.make(name, **SETTINGS.get(name, {}))


@pytest.mark.parametrize("name", tasks.TASKS)
def test_it_reads_and_writes_what_the_task_does(name: str, tmp_path: Path) -> None:
    task = made(name)
    tokenizer = task.fast_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    batch = task.sample(4, generator(0))
    for row, length in zip(batch.tokens, task.lengths(batch.tokens), strict=True):
        ids = row[: int(length)]
        text = task.question(ids) if name == "text" else " ".join(task.words(ids))
        for either in (tokenizer, again):
            assert either.encode(text, add_special_tokens=False) == ids.tolist()
            assert either.decode(ids) == text
    assert len(tokenizer) == len(task.vocabulary)
    assert tokenizer.pad_token_id == (task.pad if task.pad >= 0 else None)


def test_bytes_that_are_no_character_and_names_of_tokens_are_only_bytes() -> None:
    tokenizer = made("text").fast_tokenizer()
    text = "é PAD <0x41>\n\t\x00 x"
    assert tokenizer.encode(text) == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text


def test_a_text_with_a_tokenizer_of_its_own_keeps_it(tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"the": 0, "fox": 1, "?": 2, "PAD": 3}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    (tmp_path / "text.txt").write_text("the fox the fox the fox " * 9)
    task = tasks.make("text", path=str(tmp_path / "text.txt"), block=8, tokenizer=str(tmp_path / "words.json"))
    tokenizer = task.fast_tokenizer()
    assert tokenizer.encode("the fox PAD") == task.parse("the fox PAD").tokens[0].tolist() == [0, 1, 3]
    assert tokenizer.pad_token_id == task.pad == 4 and tokenizer.pad_token == "<PAD>"


def test_a_word_that_stands_for_several_ids_is_told_apart() -> None:
    tokenizer = tasks.own_sequences(torch.tensor([[0, 1, 2]]), 3, words=["a", "b", "a"]).fast_tokenizer()
    assert tokenizer.convert_ids_to_tokens([0, 1, 2]) == ["a", "b", "a#2"]
    assert isinstance(tokenizer, PreTrainedTokenizerFast)


def test_a_vocabulary_of_one_word_has_a_tokenizer() -> None:
    from workbench.tasks.vocabulary import word_tokenizer

    assert word_tokenizer(Vocabulary(("x",)), -1, 4).encode("x x") == [0, 0]


def test_the_same_sequences_given_twice_are_one_task() -> None:
    """Equality of tensors is no truth value: it raised where tasks are looked up."""
    first, again = (tasks.own_sequences(torch.arange(12).view(3, 4), 12) for _ in range(2))
    assert first.n_given == again.n_given and first == again and hash(first) == hash(again)
    assert first != tasks.own_sequences(torch.arange(12).view(4, 3), 12)


def test_sequences_say_what_they_are_and_hold_their_token_ids() -> None:
    """They were shown as a path in memory, and taken for token ids."""
    given = torch.arange(12).view(3, 4)
    sequences = tasks.own_sequences(given, 12)
    assert torch.equal(sequences.tokens, given) and repr(sequences).startswith("<3 sequences to inspect a model on")
