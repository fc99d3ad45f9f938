"""Text from files and saved data sets, as bytes or through a tokenizer."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import datasets
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.models.tiny_tokenizers import byte_level
from workbench import tasks
from workbench.models.pretrained.text_file import text_tokens
from workbench.util.seeds import generator

PROSE = "The quick brown fox jumps over the lazy dog — über Bäume. " * 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prose.txt"
    path.write_text(PROSE, encoding="utf-8")
    return path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    words = {word: i for i, word in enumerate(["<unk>", *dict.fromkeys(PROSE.split())])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(tmp_path / "words.json"))
    return tmp_path / "words.json"


def test_blocks_of_bytes_cover_the_file_once(file: Path) -> None:
    task = tasks.make("text", path=str(file), block=50)
    whole = PROSE.encode()
    seen = {bytes(row[row != task.pad].tolist()) for row in task.draw(2000, generator(0)).tokens}
    starts = sorted(whole.index(block) for block in seen)
    assert all(start % 50 == 0 or whole.count(whole[start : start + 50]) > 1 for start in starts)
    assert {whole[i : i + 50] for i in range(0, len(whole), 50) if len(whole[i : i + 50]) >= 2} == seen


def test_every_position_but_the_last_predicts_the_next_byte(file: Path) -> None:
    batch = tasks.make("text", path=str(file), block=20).sample(30, generator(1))
    assert torch.equal(batch.targets[:, :-1][batch.loss_mask[:, :-1]], batch.tokens[:, 1:][batch.loss_mask[:, :-1]])
    assert bool(batch.loss_mask[:, :18].all()) and not batch.loss_mask[:, -1].any()


def test_a_tokenizer_makes_the_tokens_and_its_words_are_shown(file: Path, tokenizer: Path) -> None:
    task = tasks.make("text", path=str(file), block=6, tokenizer=str(tokenizer))
    batch = task.sample(40, generator(2))
    assert batch.tokens.shape[1] <= 6 and set(task.words(batch.tokens[0])) & set(PROSE.split())
    parsed = task.parse("The lazy fox")
    assert task.words(parsed.tokens[0]) == ["The", "lazy", "fox"]
    assert len(task.vocabulary) == len(set(PROSE.split())) + 2 and task.vocabulary.words[-1] == "PAD"


def test_the_words_of_a_byte_level_tokenizer_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_text("The café là. " * 20, encoding="utf-8")
    byte_level().backend_tokenizer.save(str(tmp_path / "own.json"))
    task = tasks.make("text", path=str(tmp_path / "prose.txt"), block=8, tokenizer=str(tmp_path / "own.json"))
    assert task.words(task.parse("The là\nù").tokens[0]) == ["The", "␣là", "⏎", "<0xC3>", "<0xB9>"]
    assert task.vocabulary.words[task.pad] == "PAD" and len(task.vocabulary) == len(byte_level()) + 1


def test_a_saved_data_set_is_read_row_by_row(tmp_path: Path) -> None:
    rows = ["short", "", "a somewhat longer row of text", "x"]
    datasets.Dataset.from_dict({"text": rows, "other": [1, 2, 3, 4]}).save_to_disk(tmp_path / "set")
    task = tasks.make("text", path=str(tmp_path / "set"), block=10)
    seen = {bytes(row[row != task.pad].tolist()).decode() for row in task.draw(300, generator(3)).tokens}
    assert seen == {"short", "a somewhat", " longer ro", "w of text"}
    shuffled = datasets.load_from_disk(str(tmp_path / "set")).select([2, 0])
    shuffled.save_to_disk(tmp_path / "part")
    again = tasks.make("text", path=str(tmp_path / "part"), block=10)
    assert {bytes(r[r != 256].tolist()).decode() for r in again.draw(300, generator(3)).tokens} == seen


def test_what_cannot_be_read_fails_when_the_task_is_made(tmp_path: Path, file: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "folder").mkdir()
    datasets.Dataset.from_dict({"words": ["a b"]}).save_to_disk(tmp_path / "set")
    datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["ab"]})}).save_to_disk(tmp_path / "sets")
    for settings, message in [
        ({"path": str(tmp_path / "nowhere.txt")}, "not there"),
        ({"path": str(tmp_path / "empty.txt")}, "holds no text"),
        ({"path": str(tmp_path / "folder")}, "cannot read"),
        ({"path": str(tmp_path / "set")}, "no column 'text'; there is: words"),
        ({"path": str(tmp_path / "sets")}, "several data sets.*train"),
        ({"path": str(file), "tokenizer": str(file)}, "not a tokenizers JSON file"),
        ({"path": str(file), "tokenizer": "nowhere.json"}, "there is no tokenizer file nowhere.json"),
        ({}, "path"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            tasks.make("text", **settings)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="2 to 128 tokens"):
        tasks.make("text", path=str(file)).parse("x")


def test_a_text_that_leaves_nothing_to_test_on_says_what_to_take(tmp_path: Path) -> None:
    """Too short, or of blocks that are all alike."""
    for name, content in {"short": "a short text of a few words", "alike": "The cat sat on it.\n" * 60}.items():
        (tmp_path / name).write_text(content)
        task = tasks.make("text", path=str(tmp_path / name), block=19)
        with pytest.raises(ValueError, match=r"hardly any test example; take a longer text, or shorter blocks"):
            task.sample(4, generator(0), split="test")


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_a_file_with_a_row_for_each_text_is_read_by_its_field_text(tmp_path: Path, ending: str) -> None:
    texts = ["The quick brown fox, he said.", 'A "quoted" word', "The lazy dog"]
    path = tmp_path / f"rows.{ending}"
    if ending == "jsonl":
        lines = [json.dumps({"id": number, "text": text, "mood": "good"}) for number, text in enumerate(texts)]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, delimiter="," if ending == "csv" else "\t")
            rows.writerows([("id", "text", "mood"), *((number, text, "good") for number, text in enumerate(texts))])
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    made = byte_level()
    rows_tokens, plain_tokens = (torch.cat(list(text_tokens(made, each))) for each in (path, plain))
    assert torch.equal(rows_tokens, plain_tokens)


def test_rows_without_a_text_are_refused_in_one_line(tmp_path: Path) -> None:
    for name, content, wrong in (
        ("a.jsonl", '{"body": "x"}', "line 1 has no text: its field 'text' is None"),
        ("b.csv", "id,body\n1,x", "text is not among those it names: 'id', 'body'"),
        ("c.jsonl", "The cat sat.", "is not JSON"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=wrong) as raised:
            list(text_tokens(byte_level(), tmp_path / name))
        assert "\n" not in str(raised.value)
