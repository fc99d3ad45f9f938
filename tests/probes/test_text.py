"""`workbench probe MODEL LABEL --text FILE`: labels that a text gives, on a model of Hugging Face."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import of_words
from workbench.cli import main
from workbench.models.pretrained import load_model
from workbench.models.pretrained.labelled_file import labelled_sequences
from workbench.probes import fitting, labels
from workbench.probes import text as text_probes
from workbench.tasks import Sequences, own_sequences


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with random weights that knows 38 words, and a text of them in random order."""
    place = tmp_path_factory.mktemp("probed")
    tiny("llama").save_pretrained(place / "llama")
    of_words().save_pretrained(place / "llama")
    draw = random.Random(0)
    (place / "text.txt").write_text(" ".join(f"w{draw.randint(2, 39)}" for _ in range(2400)), encoding="utf-8")
    return place


def test_labels_of_a_text_are_the_tokens_beside_and_the_first_letter() -> None:
    words = ["the", "\u0120Ox", "\u2581over", "<pad>"]
    task = own_sequences([torch.tensor([0, 1, 2]), torch.tensor([2, 0])], 4, words=words, pad=3)
    found = labels(task, torch.tensor([[0, 1, 2], [2, 0, 3]]))
    assert found["next_token"].tolist() == [[1, 2, -1], [0, -1, -1]]
    assert found["previous_token"].tolist() == [[-1, 0, 1], [-1, 2, -1]]
    letters = found["first_letter"]
    assert letters[0, 1] == letters[0, 2] == letters[1, 0] != letters[0, 0] == letters[1, 1]
    assert letters[1, 2] == -1


def test_the_token_before_is_read_after_attention_and_the_next_one_nowhere(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["--text", str(place / "text.txt"), "--length", "8", "--n", "300", "--quiet"]
    out = tmp_path / "previous"
    assert main(["probe", str(place / "llama"), "previous_token", *text, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "previous token: decodable, first after attention 0" in shown
    assert "control task" in shown and "shuffled labels" in shown and "untrained" not in shown
    (told,) = json.loads((out / "probe.json").read_text())["findings"]
    assert told["run"] == "llama" and told["point"] == "blocks.0.hook_resid_mid" and told["causal"] is None
    assert main(["probe", str(place / "llama"), "next_token", *text]) == 0
    assert "next token: decoded no better than from its baselines" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["llama", "nothing", "--text", "text.txt"], "there is: eighth, first_letter, in_quotes, line_position"),
        (["llama", "token", "--text", "gone.txt"], "there is no text file"),
        (["llama", "token", "--text", "text.txt", "--step", "3"], "--step is of runs"),
        (["llama", "token", "--length", "8"], "--length is of models"),
        (["llama", "token", "--text", "text.txt", "--positions", "99", "--length", "8"], "there is no position 99"),
        (["llama", "llama", "token", "--text", "text.txt"], "named twice"),
        (["llama", "token", "--text", "text.txt", "--seeds", "0"], "at least 1 seed"),
        (["llama", "token", "--text", "text.txt", "--n", "0"], "at least 2 sequences, not n=0"),
        (["llama", "token", "--text", "text.txt", "--kind", "magic"], "magic"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], reason: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert main(["probe", *words, "--quiet"]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out


def labelled(place: Path, name: str, rows: list[dict[str, object]]) -> str:
    (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def texts(n: int) -> list[list[str]]:
    draw = random.Random(1)
    return [[f"w{draw.randint(2, 39)}" for _ in range(draw.randint(5, 6))] for _ in range(n)]


def test_columns_of_a_file_are_labels_of_its_texts(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last word but one decides two columns, in any form of file; another is by chance."""
    monkeypatch.chdir(place)
    rows: list[dict[str, object]] = []
    for i, words in enumerate(texts(600)):
        odd = int(words[-3][1:]) % 2
        words[-2] = f"w{2 + odd}"
        rows.append({"text": " ".join(words), "odd": bool(odd), "minimum": odd, "chance": f"c{i % 2}"})
    labelled(place, "rows.jsonl", rows)
    probe = ["probe", "llama", "--n", "600", "--quiet"]
    assert main([*probe, "odd", "--text", "rows.jsonl"]) == 0
    first = capsys.readouterr().out
    assert "600 sequences" in first and "odd: decodable" in first and "control task" in first
    lines = ["text\todd"] + [f"{row['text']}\t{str(row['odd']).lower()}" for row in rows]
    (place / "rows.tsv").write_text("\n".join(lines), encoding="utf-8")
    assert main([*probe, "odd", "--text", "rows.tsv"]) == 0
    assert capsys.readouterr().out == first
    assert main([*probe, "minimum", "--text", "rows.jsonl"]) == 0
    assert capsys.readouterr().out.replace("minimum", "odd") == first
    assert main([*probe, "chance", "--text", "rows.jsonl"]) == 0
    assert "chance: decodable" not in capsys.readouterr().out
    assert main([*probe, "word_part", "--text", "rows.jsonl"]) == 2  # every word is one token
    assert "one value" in capsys.readouterr().err


def test_a_span_labels_the_tokens_that_share_a_character_with_it(place: Path) -> None:
    model = load_model(place / "llama", progress=False)
    rows: list[dict[str, object]] = [
        {"text": "w2 w13 w4", "kind": [{"start": 4, "end": 8, "label": "b"}], "score": 2},
        {"text": "w5 w6", "kind": [{"start": 0, "end": 1, "label": "a"}], "score": 7.0},
        {"text": "w7 w7 w7 w7", "kind": []},
        {"text": "w8 w9 w9", "kind": None, "score": None},
    ]
    path = place / labelled(place, "spans.jsonl", rows)
    task = labelled_sequences(model, path, "*")
    assert labels(task, task.tokens)["kind"].tolist() == [[0, 2, 2, -1], [1, 0, -1, -1], [0, 0, 0, 0], [-1] * 4]
    assert labels(task, task.tokens)["score"].tolist() == [[-1, -1, 2, -1], [-1, 7, -1, -1], [-1] * 4, [-1] * 4]
    assert set(labels(labelled_sequences(model, path, "kind"), task.tokens)) & {"kind", "score"} == {"kind"}
    unknown = torch.tensor([[9, 9, 9, 9]])
    assert labels(task, unknown)["score"].tolist() == [[-1] * 4]  # of a text that is not in the file
    task.save(place / "saved.safetensors")
    again = Sequences(path=str(place / "saved.safetensors"))
    assert torch.equal(labels(again, task.tokens)["kind"], labels(task, task.tokens)["kind"])


def span(start: object, end: int, label: object = "a") -> dict[str, object]:
    return {"start": start, "end": end, "label": label}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.5, 2], "mood holds numbers with decimals"),
        ([{"a": 1}], "line 1: mood is an object"),
        ([[span(0, 9)]], "characters of the text from 0 to 5"),
        ([[span(0, 2, 3)]], "is no span"),
        ([[span("0", 2)]], "is no span"),
        ([["a", "b"]], "line 1: mood: 'a' is no span"),
        ([[span(0, 4), span(3, 5)]], "line 1: mood: two spans overlap at character 3"),
        ([[span(0, 4)], "a"], "line 2: mood: 'a' is no span"),
        (["a", "b"], "sequences 1 and 2 are the same tokens, and their labels 'mood' differ"),
    ],
)
def test_what_is_no_label_is_one_line(
    values: list[object], reason: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, object]] = [{"text": "w2 w3", "mood": value} for value in (values * 2)[:2]]
    test_what_is_wrong_with_a_labelled_file_is_one_line("mood", rows, reason, place, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("label", "rows", "reason"),
    [
        ("mood", [{"text": "w2 w3", "mood": "a"}], "has 1 of the 2 texts"),
        ("mood", [{"text": "w2 w3"}, {"mood": "b"}], "line 2 has no text"),
        ("mood", [{"text": "w2 w3"}, {"text": "w2"}], "line 2: the text has 1 tokens, and 2 to 8 are read (--length)"),
        ("mood", [{"text": "w2 w3"}, {"text": "w2 " * 9}], "line 2: the text has 9 tokens"),
        ("token", [{"text": "w2 w3", "token": "a"}] * 2, "every text has a label 'token'"),
        ("gone", [{"text": "w2 w3", "mood": "a"}] * 2, "unknown probe or label of sequences 'gone'"),
        ("mood", [["w2 w3", "a"]], "line 1 is no text; one is an object in braces with text"),
    ],
)
def test_what_is_wrong_with_a_labelled_file_is_one_line(
    label: str,
    rows: list[dict[str, object]],
    reason: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    text = labelled(place, "wrong.jsonl", rows)
    assert main(["probe", "llama", label, "--text", text, "--length", "8", "--quiet"]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out


def test_a_label_of_many_classes_is_read_at_a_stated_sample_of_positions(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is on rows times classes: 38 words at five points of 32 dimensions."""
    monkeypatch.setattr(text_probes, "WORK", 5 * 32 * 38 * 500)
    text = ["--text", str(place / "text.txt"), "--length", "8", "--n", "300", "--quiet"]
    assert main(["probe", str(place / "llama"), "previous_token", *text, "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    sample = re.search(r"300 sequences, read at (\d+) of (?:2,400|2,100) positions", shown)
    assert sample is not None and 400 < int(sample[1]) <= 500


def test_ctrl_c_keeps_the_points_that_are_probed(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted, decode = [], fitting.decode

    def interrupted_at_the_third(*given: Any, **named: Any) -> Any:
        fitted.append(1)
        if len(fitted) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return decode(*given, **named)

    monkeypatch.setattr(fitting, "decode", interrupted_at_the_third)
    text = ["--text", str(place / "text.txt"), "--length", "8", "--n", "100", "--json"]
    assert main(["probe", str(place / "llama"), "previous_token", *text]) == 130
    out, err = capsys.readouterr()
    (measured,) = json.loads(out)["measured"]
    points = dict.fromkeys(row["point"] for row in measured["rows"])
    assert 1 <= len(points) < 5 and "blocks.0.hook_resid_pre" in points
    assert f"ended after {len(points)} of 5; what is done is kept" in err
