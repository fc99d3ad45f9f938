"""`workbench circuit MODEL --pairs FILE`: pairs of texts written by hand, on models of Hugging Face."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import workbench
from tests.models.tiny_models import tiny
from workbench.circuits import Comparison, Graph, path_patching
from workbench.circuits.pairs_file import read_pairs
from workbench.circuits.rewired import rewired_logits, writes
from workbench.cli import main

GOOD = [
    {"clean": "w5 w6 w7 w8", "corrupted": "w5 w6 w9 w8", "answer": "w10", "wrong": "w11"},
    {"clean": "w5 w6 w7", "corrupted": "w5 w8 w7", "answer": "w12", "wrong": "w13"},
    {"clean": "w9 w6 w7 w8 w9", "corrupted": "w5 w6 w7 w8 w9", "answer": "w10", "wrong": "w12"},
    {"clean": "w30 w6 w7", "corrupted": "w5 w6 w7", "answer": "w14", "wrong": "w11"},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 and a Llama with grouped queries, with random weights and 38 words; and a GPT-2 without tokenizer."""
    place = tmp_path_factory.mktemp("pairs")
    made = Tokenizer(models.WordLevel({"[PAD]": 0, "<u>": 1} | {f"w{i}": i for i in range(2, 40)}, unk_token="<u>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for family in ("gpt2", "llama"):
        tiny(family).save_pretrained(place / family)
        words = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="<u>")
        words.save_pretrained(place / family)
    tiny("gpt2").save_pretrained(place / "mute")
    write(place / "good.jsonl", GOOD)
    return place


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_the_metric_is_the_difference_of_the_models_own_logits(place: Path) -> None:
    model = workbench.load_model(place / "gpt2", progress=False)
    pairs = read_pairs(place / "good.jsonl", model)
    own = AutoModelForCausalLM.from_pretrained(place / "gpt2").eval()
    expected = torch.empty(2, 4)
    for number, row in enumerate(GOOD):
        for side, name in enumerate(("clean", "corrupted")):
            logits = own(model.tokens(row[name])[None]).logits[0, -1]  # alone, without padding
            expected[side, number] = logits[int(row["answer"][1:])] - logits[int(row["wrong"][1:])]
    got = torch.as_tensor(Comparison(model.hooked(), pairs).baselines).float()
    torch.testing.assert_close(got, expected.detach(), atol=1e-5, rtol=1e-5)


def test_csv_and_json_lines_are_the_same_pairs(place: Path, tmp_path: Path) -> None:
    with (tmp_path / "good.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(GOOD[0]))
        table.writeheader()
        table.writerows(GOOD)
    model = workbench.load_model(place / "gpt2", progress=False)
    one, other = (read_pairs(path, model) for path in (place / "good.jsonl", tmp_path / "good.csv"))
    assert torch.equal(one.clean.tokens, other.clean.tokens) and torch.equal(one.asked, other.asked)
    assert torch.equal(one.corrupted.tokens, other.corrupted.tokens) and torch.equal(one.wrong, other.wrong)
    assert one.asked.sum(-1).tolist() == [1, 1, 1, 1]


def test_a_circuit_of_all_edges_keeps_all_of_the_answer(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--pairs", str(place / "good.jsonl"), "--edges", "9", "--out", str(tmp_path / "out")]
    assert main(["circuit", str(place / "gpt2"), *words]) == 0
    shown = capsys.readouterr().out
    assert "on the 2 test pairs (kind good)" in shown and re.search(
        r"^  100% +110 +100% +0% +too few pairs$", shown, re.M
    )
    assert "on 2 test pairs: too few pairs to call it faithful (5 are the fewest, and 29 are needed)." in shown
    assert json.loads((tmp_path / "out" / "circuit.json").read_text())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@torch.no_grad()
def test_pairs_of_texts_are_patched_too(
    place: Path, family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = workbench.load_model(place / family, progress=False)
    rows = []
    for i in range(8):
        clean, corrupted = f"w{5 + i} w6 w7 w8", f"w{5 + i} w{20 + i} w7 w8"
        sides = [model.hooked()(model.tokens(text)[None])[0, -1, 2:38] for text in (clean, corrupted)]
        speaks = sides[0] - sides[1]  # the words that one text brings nearer than the other
        answer, wrong = f"w{2 + int(speaks.argmax())}", f"w{2 + int(speaks.argmin())}"
        rows.append({"clean": clean, "corrupted": corrupted, "answer": answer, "wrong": wrong})
    path = write(tmp_path / "told.jsonl", rows)
    assert main(["patch", str(place / family), "--pairs", str(path)]) == 0
    said = capsys.readouterr().out
    assert "on 8 pairs of kind told" in said and "head 0." in said
    assert re.search(r"^  before layer 0 +position 1 w6 \(changed\) +100%$", said, re.M)
    assert "change nothing relevant" not in said, "a file has no control pairs"


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_where_a_model_tells_the_texts_of_pairs_not_apart_no_share_is_told(
    place: Path, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["patch", str(place / family), "--pairs", str(place / "good.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "on 4 pairs of kind good" in said and "its interval does not lie above 0" in said and "%" not in said


def test_heads_that_share_keys_have_edges_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["circuit", str(place / "llama"), "--pairs", str(place / "good.jsonl"), "--edges", "9"]) == 0
    assert re.search(r"^  100% +\d+ +100% +0%", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_path_patching_is_a_run_in_which_one_edge_carries_the_other_text(place: Path, family: str) -> None:
    model = workbench.load_model(place / family, progress=False)
    comparison = Comparison(model.hooked(), read_pairs(place / "good.jsonl", model))
    graph, pairs = Graph.of(comparison.model), comparison.pairs
    names = graph.names[:: graph.n_edges // 12]
    own, other = path_patching(comparison, names).values, writes(comparison, pairs.clean.tokens)
    for name, found in zip(names, own, strict=True):
        keep = graph.edges & ~graph.mask([name])
        logits = rewired_logits(comparison, pairs.corrupted.tokens, keep, other)
        expected = comparison.score(logits, pairs, logits).double().numpy() - comparison.baselines[1]
        assert found == pytest.approx(expected, abs=1e-4), name
    assert abs(own).max() > 1e-3


def bad(**changes: str | None) -> list[dict[str, Any]]:
    """The good pairs, the second of them changed."""
    second = {name: value for name, value in (GOOD[1] | changes).items() if value is not None}
    return [GOOD[0], second, *GOOD[2:]]


WRONG: dict[str, list[dict[str, Any]]] = {
    "line 2: clean has 4 tokens, and corrupted 3": bad(clean="w5 w6 w7 w8"),
    "line 2: clean and corrupted are the same text": bad(corrupted="w5 w6 w7"),
    "line 2: the answer 'w4 w5' is not one token but 2 ('w4' 'w5')": bad(answer="w4 w5"),
    "line 2: the wrong '' is not one token but 0": bad(wrong=""),
    "line 2: the answer 'Mary' is not in the tokenizer's vocabulary": bad(answer="Mary"),
    "line 2: answer and wrong are the same, 'w13'": bad(answer="w13"),
    "line 2 has no text 'wrong'; a pair has clean, corrupted, answer, wrong": bad(wrong=None),
    "line 2: the texts have 33 tokens, and the model takes 1 to 32": bad(clean="w3 " * 33, corrupted="w4 " * 33),
    "has 2 of the 4 pairs or more that are needed": GOOD[:2],
    "has 0 of the 4 pairs": [],
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_is_wrong_with_a_file_is_one_line(
    reason: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "bad.jsonl", WRONG[reason])
    assert main(["circuit", str(place / "gpt2"), "--pairs", str(path)]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["gpt2", "--pairs", "gone.jsonl"], "there is no file of pairs gone.jsonl"),
        (["gpt2", "--pairs", "gpt2/config.json"], "line 1 is not JSON; pairs are JSON lines, or CSV"),
        (["gpt2", "--pairs", "gpt2/model.safetensors"], "is not text in UTF-8"),
        (["mute", "--pairs", "good.jsonl"], "has no tokenizer"),
        (
            ["gpt2", "pointer", "--pairs", "good.jsonl"],
            "the kind 'pointer' is of a run's own pairs; leave it or --pairs out",
        ),
        (["gpt2", "--step", "3", "--pairs", "good.jsonl"], "workbench: --step is of a run's own pairs"),
        (["gpt2", "--n", "4", "--pairs", "good.jsonl"], "workbench: --n is of a run's own pairs"),
        (["gpt2", "--later", "--pairs", "good.jsonl"], "workbench: --later is of a run's own pairs"),
        (["gpt2"], "gpt2 is a model of Hugging Face, not a run folder"),
    ],
)
def test_what_is_wrong_with_a_command_is_one_line(
    words: list[str], reason: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert main(["circuit", *words]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out
