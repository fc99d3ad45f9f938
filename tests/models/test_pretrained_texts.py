"""Texts at both doors of a model, its own and its bridge's: the same tokens, none lost to padding, with their words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import END, PROSE, TOKENIZERS, save
from workbench.circuits.pairs_file import read_pairs
from workbench.cli import main
from workbench.models.pretrained import Pretrained, set_attention
from workbench.models.pretrained.text_file import TypedText, text_tokens
from workbench.probes import labels
from workbench.tasks import own_sequences, text_file

every_kind = pytest.mark.parametrize("kind", TOKENIZERS)


def model_of(kind: str, family: str = "llama", **special: Any) -> Pretrained:
    made = TOKENIZERS[kind](**special)
    return Pretrained(tiny(family, vocab_size=len(made), pad_token_id=None, bos_token_id=None), made)


def special_texts(model: Pretrained) -> list[str]:
    """Texts that begin and end with each special token, and texts without any, of several lengths."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    special = sorted({*tokenizer.all_special_tokens})
    ends = [text for token in special for text in (f"cat{token}", f"{token}cat", f"The cat sat{token}{token}")]
    return [*ends, "cat", "The cat sat", "zebra zèbre"]


@every_kind
def test_no_token_is_lost_to_padding(kind: str) -> None:
    model = model_of(kind)
    texts = [text for text in special_texts(model) if len(model.tokens(text)) > 1]
    task = model.sequences(texts, training=[f"{texts[0]} {texts[0]}", *texts])
    for split, expected in ((None, texts), ("train", [f"{texts[0]} {texts[0]}", *texts])):
        batch = task.sample(len(expected), workbench.generator(0), split=split)
        lengths = task.lengths(batch.tokens).tolist()
        rows = [row[:length].tolist() for row, length in zip(batch.tokens, lengths, strict=True)]
        assert sorted(rows) == sorted(model.tokens(text).tolist() for text in expected)
        assert (batch.loss_mask.sum(1) + 1).tolist() == lengths
        found = labels(task, batch.tokens)
        assert (found["token"] >= 0).sum(1).tolist() == lengths
        assert ((found["next_token"] >= 0).sum(1) + 1).tolist() == lengths


def test_an_unknown_word_that_pads_is_not_lost() -> None:
    model = model_of("word piece")
    assert model.pad == model.tokenizer.unk_token_id
    plain = model.tokenizer.encode("cat zebra", add_special_tokens=False)
    rows = [torch.tensor(plain), torch.tensor([*plain, 3])]
    task = own_sequences(rows, model.config.d_vocab, words=model.vocabulary, pad=model.pad)
    assert sorted(task.lengths(task.sample(2, workbench.generator(0)).tokens).tolist()) == [2, 3]


def test_a_vocabulary_of_two_keeps_lengths_or_is_refused() -> None:
    task = own_sequences([torch.tensor([0, 1]), torch.tensor([0, 1, 1])], 2, pad=1)
    assert task.lengths(torch.tensor([[0, 1, task.pad], [0, 1, 1]])).tolist() == [2, 3]
    same = own_sequences([torch.tensor([0, 1]), torch.tensor([1, 0])], 2, pad=1)
    assert same.lengths(torch.tensor([[0, 1], [1, 0]])).tolist() == [2, 2]
    others = own_sequences([*torch.tensor([[0, 1], [1, 0]])], 2, training=[torch.tensor([0, 1, 0])], pad=1)
    assert others.lengths(torch.tensor([[0, 1], [1, 0]])).tolist() == [2, 2]
    padded = own_sequences(torch.tensor([[0, 0, 1], [0, 0, 0]]), 2, pad=1)
    assert sorted(padded.lengths(padded.sample(2, workbench.generator(0)).tokens).tolist()) == [2, 3]
    with pytest.raises(ValueError, match=r"each of the model's 2 tokens.*: give sequences of one length"):
        own_sequences([torch.tensor([0, 1]), torch.tensor([0, 1, 0])], 2, pad=1)
    with pytest.raises(ValueError, match="does not end with '0', which fills up"):
        task.parse("1 0")


@every_kind
def test_both_doors_give_the_tokenizers_own_tokens(kind: str) -> None:
    model = model_of(kind)
    hooked = model.hooked()
    for text in special_texts(model):
        assert hooked.to_tokens(text)[0].tolist() == model.tokens(text).tolist()
        assert hooked.to_tokens(text, prepend_bos=False)[0].tolist() == model.tokenizer.encode(
            text, add_special_tokens=False
        )
    logits, cache = hooked.run_with_cache("The cat")
    torch.testing.assert_close(logits, model(model.tokens("The cat")[None]))
    assert len(hooked.to_str_tokens("The cat")) == cache["hook_embed"].shape[1] == len(model.tokens("The cat"))
    single = "The" if kind == "byte level" else "cat"
    assert hooked.to_single_token(single) == model.tokenizer.encode(single, add_special_tokens=False)[0]


def test_a_beginning_of_text_is_put_where_it_is_asked_for_and_never_twice() -> None:
    hooked = model_of("byte level", bos_token=END).hooked()
    begin = hooked.tokenizer.bos_token_id
    plain = hooked.to_tokens("The cat")[0].tolist()
    assert begin not in plain
    assert hooked.to_tokens("The cat", prepend_bos=True)[0].tolist() == [begin, *plain]
    assert hooked.to_tokens(f"{END}The cat", prepend_bos=True)[0].tolist() == [begin, *plain]
    assert (
        hooked.to_tokens("The cat" * 40).shape[1]
        == hooked.cfg.n_ctx
        < hooked.to_tokens("The cat" * 40, truncate=False).shape[1]
    )


@every_kind
@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_of_different_lengths_are_read_as_each_alone(kind: str, side: str) -> None:
    """Also where a text begins or ends with the token that pads."""
    model = model_of(kind, padding_side=side)
    hooked, texts = model.hooked(), special_texts(model)
    together, tokens = hooked(texts), hooked.to_tokens(texts)
    for text, row, logits in zip(texts, tokens, together, strict=True):
        own = model.tokens(text)
        place = slice(len(row) - len(own), None) if side == "left" else slice(len(own))
        assert torch.equal(row[place], own)
        torch.testing.assert_close(logits[place], model(own[None])[0], atol=1e-5, rtol=1e-4)
    long = [text for text in texts if len(model.tokens(text)) > 1]
    counts = torch.tensor([len(model.tokens(text)) - 1.0 for text in long])
    alone = torch.stack([hooked(text, return_type="loss") for text in long])
    torch.testing.assert_close(hooked(long, return_type="loss"), (alone * counts).sum() / counts.sum())


@every_kind
@pytest.mark.parametrize("cached", [True, False])
def test_prompts_go_on_as_each_alone(kind: str, cached: bool) -> None:
    model = model_of(kind)
    hooked, texts = model.hooked(), special_texts(model)[:4]
    given: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "stop_at_eos": False, "verbose": False}
    together = hooked.generate(texts, use_past_kv_cache=cached, return_type="tokens", **given)
    for text, row in zip(texts, together, strict=True):
        (alone,) = model.generate([model.prompt(text)], 4)
        assert row[len(row) - len(alone) :].tolist() == alone.tolist()
    *_, streamed = hooked.generate_stream(texts, use_past_kv_cache=cached, return_type="tokens", **given)
    assert streamed.tolist() in (together.tolist(), together[:, -streamed.shape[1] :].tolist())
    assert isinstance(hooked.generate(texts, use_past_kv_cache=cached, **given)[0], str)
    assert isinstance(hooked.generate("The cat", use_past_kv_cache=cached, **given), str)


@every_kind
def test_a_typed_text_keeps_its_special_tokens_when_it_is_read_back(kind: str) -> None:
    model = model_of(kind)
    task = TypedText.of(model)
    for token in model.tokenizer.all_special_tokens:
        tokens = model.tokens(f"cat cat{token}")
        assert task.parse(task.question(tokens)).tokens[0].tolist() == tokens.tolist()


def test_several_texts_of_a_variant_are_padded_where_no_token_sees_it() -> None:
    made = TOKENIZERS["byte level"]()
    plain = tiny("llama", vocab_size=len(made), pad_token_id=None, bos_token_id=None)
    set_attention(plain, "chacal", [1])
    model = Pretrained(plain, made)
    texts = [f"The cat{END}", "The cat sat on the mat."]
    logits = model.hooked()(texts)
    own = model.tokens(texts[0])
    torch.testing.assert_close(logits[0, : len(own)], model(own[None])[0], atol=1e-5, rtol=1e-4)


def test_a_pair_is_asked_for_behind_its_last_word(tmp_path: Path) -> None:
    """Not behind the end that a tokenizer puts after a text; and a text that ends with the padding keeps its end."""
    for kind, end in (("unigram", ""), ("byte level", END)):
        model = model_of(kind)
        rows = [
            {"clean": f"The cat{more}{end}", "corrupted": f"The mat{more}{end}", "answer": "c", "wrong": "m"}
            for more in (" c", " c a", " c", " c a")
        ]
        if kind == "unigram":
            rows = [
                row | {"answer": " cat", "wrong": " na", "corrupted": row["clean"].replace("cat", "na")} for row in rows
            ]
        (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        pairs = read_pairs(tmp_path / "pairs.jsonl", model)
        for row, tokens, asked in zip(rows, pairs.clean.tokens, pairs.asked, strict=True):
            ids = model.tokenizer.encode(row["clean"], add_special_tokens=False)
            assert tokens[: len(ids)].tolist() == ids and asked.nonzero().tolist() == [[len(ids) - 1]]
        assert pairs.real(pairs.clean).sum(1).tolist() == [len(model.prompt(row["clean"])) for row in rows]


@pytest.mark.parametrize(
    ("kind", "letters"),
    [
        ("byte level", {" là": ["l"], "T": ["t"], "\n": [""], "\t": [""], "é": ["é"], "ù": ["", ""], END: [""]}),
        ("byte fallback", {"é": ["", "é"], "ù": ["", "", ""], " cat": ["", "c"], "\n": ["", ""], "</s>": [""]}),
        ("unigram", {"тихий 中": ["т", "中"], "ïve": ["", "ï"], "zebra": ["", "", "e", "", "a"]}),
        ("word piece", {"cats": ["c", "s"], "мир zebra": ["м", ""]}),
    ],
)
def test_a_first_letter_is_that_of_the_decoded_text(kind: str, letters: dict[str, list[str]]) -> None:
    """Nowhere that of how a tokenizer writes a byte, a space, or a piece within a word."""
    model = model_of(kind)
    texts = model.vocabulary.texts
    assert texts is not None
    task = model.sequences(["The cat sat", "cat cat"])
    classes: dict[str, set[int]] = {}
    for text, expected in letters.items():
        ids = model.tokenizer.encode(text, add_special_tokens=False)
        found = labels(task, torch.tensor([[*ids, (task.pad + 1) % len(texts)]]))["first_letter"][
            0, : len(ids)
        ].tolist()
        assert [label < 0 for label in found] == [not letter for letter in expected], text
        for letter, label in zip(expected, found, strict=True):
            classes.setdefault(letter, set()).add(label)
    classes.pop("", None)
    assert all(len(some) == 1 for some in classes.values())
    assert len({*map(tuple, classes.values())}) == len(classes)


@pytest.mark.parametrize("kind", ["byte level", "byte fallback", "unigram"])
def test_what_is_written_of_a_model_has_decoded_words(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text(PROSE * 20, encoding="utf-8")
    words = ["--text", str(tmp_path / "text.txt"), "--length", "12", "--n", "6", "--out", str(tmp_path / "out")]
    only = ["--only", "projection", "logit_lens", "attention_graph", "basis_overlap"]
    assert main(["inspect", str(save(tmp_path / "model", kind)), *words, *only, "--quiet"]) == 0
    capsys.readouterr()
    written = [
        file.read_text(encoding="utf-8")
        for file in tmp_path.glob("out/**/*")
        if file.suffix in (".csv", ".json", ".html")
    ]
    assert written
    for text in written:
        for wrong in "ĠÃÐ▁Ċ":
            assert wrong not in text and f"\\u{ord(wrong):04x}" not in text


@every_kind
def test_a_text_that_is_read_in_parts_has_the_tokens_of_the_whole(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SentencePiece puts a space before every text, and there was one at each seam."""
    lines = "The cat sat on a mat.\n\nThe cat, sat.\n    cat\n\tcat\ncat sat\n\n\nmat\n" * 7 + "The end"
    (tmp_path / "text.txt").write_text(lines, encoding="utf-8")
    tokenizer = TOKENIZERS[kind]()
    for letters in (10, 17, 40, 200):
        monkeypatch.setattr(text_file, "LETTERS", letters)
        parts = list(text_tokens(tokenizer, tmp_path / "text.txt"))
        assert len(parts) > 2 and torch.cat(parts).tolist() == tokenizer(lines, add_special_tokens=False)["input_ids"]
