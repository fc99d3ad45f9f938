"""Prompt sets: in every kind of tokenizer each pair differs in one token, and its answers follow from its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import byte_level, of_prompts
from workbench.models.pretrained import Pretrained
from workbench.tasks import prompt_sets
from workbench.tasks.prompt_sets import PROMPT_SETS, Prompts, named, prompt_set
from workbench.tasks.prompt_sets.capitals import CAPITALS
from workbench.tasks.prompt_sets.successors import ORDERS

KINDS = ("bpe", "sentencepiece")
OF_TEXT = [name for name in PROMPT_SETS if name != "repeated-tokens"]


def model_of(made: object, **more: int) -> Pretrained:
    return Pretrained(tiny("llama", vocab_size=len(made), pad_token_id=None, bos_token_id=None, **more), made)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Pretrained:
    return model_of(of_prompts(request.param))


def texts(model: Pretrained, prompts: Prompts) -> list[tuple[str, str, str, str]]:
    """Of each pair the clean and the corrupted text, the answer and the wrong one, as a person reads them."""
    pairs, rows = prompts.pairs, []
    for i in range(len(pairs)):
        end = int(pairs.asked[i].nonzero())
        sides = [model.text(side.tokens[i, : end + 1]) for side in (pairs.clean, pairs.corrupted)]
        answers = [model.text(side[i, end][None]).strip() for side in (pairs.right, pairs.wrong)]
        rows.append((*sides, *answers))
    return rows  # type: ignore[return-value]


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_both_prompts_of_a_pair_differ_in_one_token_and_a_control_leaves_the_answer(
    model: Pretrained, name: str
) -> None:
    prompts = prompt_set(name, model, n=12)
    pairs, control = prompts.pairs, prompts.control
    assert len(pairs) == 12 and pairs.changed.sum(-1).tolist() == [1] * 12
    key = pairs.slots[prompts.made.key]
    assert pairs.asked.sum(-1).tolist() == [1] * 12 and (pairs.right != pairs.wrong)[pairs.asked].all()
    assert torch.equal(control.clean.tokens, pairs.clean.tokens) and torch.equal(control.right, pairs.right)
    assert control.is_control and control.changed.any(-1).all() and not (control.changed & pairs.changed).any()
    assert torch.equal(control.corrupted.targets, control.clean.targets)
    assert (key.sum(-1) == 1).all() and (torch.equal(key, pairs.changed) or name == "indirect-objects")
    for i, right in enumerate(prompts.right):
        assert int(pairs.right[i][pairs.asked[i]]) in right and int(pairs.wrong[i][pairs.asked[i]]) not in right
    again, other = prompt_set(name, model, n=12), prompt_set(name, model, n=12, seed=1)
    assert torch.equal(again.pairs.clean.tokens, pairs.clean.tokens)
    assert not torch.equal(other.pairs.clean.tokens, pairs.clean.tokens)
    assert len({tuple(row) for row in pairs.clean.tokens.tolist()}) == 12, "no prompt is there twice"


@pytest.mark.parametrize("name", OF_TEXT)
def test_an_answer_is_the_token_that_comes_next_where_it_is_written_behind_its_prompt(
    model: Pretrained, name: str
) -> None:
    space = "" if name in ("acronyms", "greater-than") else " "
    pairs = prompt_set(name, model, n=12)
    for row, (clean, corrupted, answer, wrong) in enumerate(texts(model, pairs)):
        for side, text, token in ((pairs.pairs.clean, clean, answer), (pairs.pairs.corrupted, corrupted, wrong)):
            end = int(pairs.pairs.asked[row].nonzero())
            whole = model.prompt(f"{text}{space}{token}")
            assert whole.tolist() == [*side.tokens[row, : end + 1].tolist(), int(side.targets[row, end])]


def once(text: str) -> str:
    """The name that stands in a text once."""
    names = re.findall(r"[A-Z][a-z]+", text)[1:]
    return next(name for name in names if names.count(name) == 1)


def successor(text: str) -> str:
    item = re.search(r"(?:is|:) (\w+)[.,]", text)
    assert item is not None
    order = next(order.split() for order in ORDERS if item[1] in order.split())
    return order[order.index(item[1]) + 1]


def capital(text: str) -> str:
    return dict(entry.split() for entry in CAPITALS.split(", "))[text.split(" capital of ")[1].split()[0]]


TRUTH: dict[str, Callable[[str], str]] = {
    "indirect-objects": once,
    "successors": successor,
    "acronyms": lambda text: text.split(" (")[0].split()[-1][0],
    "capitals": capital,
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_follows_from_the_text(model: Pretrained, name: str) -> None:
    for clean, corrupted, answer, wrong in texts(model, prompt_set(name, model, n=12)):
        assert (TRUTH[name](clean), TRUTH[name](corrupted)) == (answer, wrong)


def test_verbs_agree_with_the_subject_whatever_stands_beside_it(model: Pretrained) -> None:
    plural = {"are", "were", "have", "do"}
    rows = texts(model, prompt_set("agreement", model, n=48))
    for clean, corrupted, answer, wrong in rows:
        subjects = [text.split()[4] for text in (clean, corrupted)]
        assert [subject.endswith("s") for subject in subjects] == [answer in plural, wrong in plural]
    assert len({(row[0].split()[4][-1] == "s", row[0][-1] == "s") for row in rows}) == 4, "attractors of both numbers"


def test_years_are_greater_by_halves_or_by_digits_as_the_tokenizer_cuts_them(model: Pretrained) -> None:
    prompts = prompt_set("greater-than", model, n=12)
    by_digit = "Y" in prompts.pairs.slots
    assert model.tokenizer is not None
    assert by_digit == (model.tokenizer.bos_token == "<s>") == bool(prompts.notes) and not prompts.made.answers_both
    for (clean, corrupted, answer, wrong), right in zip(texts(model, prompts), prompts.right, strict=True):
        first, second = (re.search(r"year (\d+) to", text) for text in (clean, corrupted))
        assert first and second
        start, low = (int(found[1][2:3] if by_digit else found[1][2:]) for found in (first, second))
        assert low == (0 if by_digit else 1) and int(wrong) <= start < int(answer)
        assert len(right) == (9 if by_digit else 99) - start


def test_repeated_tokens_follow_what_they_followed_before(model: Pretrained) -> None:
    prompts = prompt_set("repeated-tokens", model, n=12)
    assert model.tokenizer is not None
    special = set(model.tokenizer.all_special_ids)
    begins = [1] if model.tokenizer.bos_token == "<s>" else []
    for row, (clean, corrupted) in enumerate(
        zip(prompts.pairs.clean.tokens, prompts.pairs.corrupted.tokens, strict=True)
    ):
        end = int(prompts.pairs.asked[row].nonzero())
        for side, answer in ((clean, prompts.pairs.right), (corrupted, prompts.pairs.wrong)):
            tokens = side[: end + 1].tolist()
            assert tokens[: len(begins)] == begins and not special & {*tokens[len(begins) :]}
            assert tokens.count(tokens[-1]) == 2 and tokens[tokens.index(tokens[-1]) + 1] == int(answer[row, end])


def test_slots_are_where_their_words_are(model: Pretrained) -> None:
    prompts = prompt_set("indirect-objects", model, n=12)
    pairs = prompts.pairs
    token = {slot: pairs.clean.tokens[at] for slot, at in pairs.slots.items()}
    assert torch.equal(token["S1"], token["S2"]) and torch.equal(token["IO"], pairs.right[pairs.asked])
    assert torch.equal(pairs.slots["end"], pairs.asked) and torch.equal(pairs.slots["S2"], pairs.changed)
    assert torch.equal(pairs.slots["S1+1"][:, 1:], pairs.slots["S1"][:, :-1])
    first = (pairs.slots["IO"].long().argmax(-1) < pairs.slots["S1"].long().argmax(-1)).sum()
    assert 2 <= int(first) <= 10, "either name comes first"
    half = pairs[torch.arange(12)[::2]]
    assert torch.equal(half.slots["S2"], half.changed)


def test_what_does_not_fit_is_left_out_or_refused_and_it_is_said_why() -> None:
    without = prompt_set("indirect-objects", model_of(of_prompts(without="Mary")), n=8)
    (note,) = without.notes
    assert re.fullmatch(r"Of 7\d names 7\d fit; this tokenizer cuts Mary into .*\.", note)
    bytes_alone = model_of(byte_level())
    for name, reason in (
        ("greater-than", r"years whose two halves, or whose digits, are one token each; this tokenizer cuts \w+ into"),
        ("indirect-objects", "names that are one token each; this tokenizer cuts Mary into .·M·a·r·y"),
    ):
        with pytest.raises(ValueError, match=f"{name} does not fit .*: it needs {reason}"):
            prompt_set(name, bytes_alone)
    assert len(prompt_set("repeated-tokens", bytes_alone, n=8).pairs) == 8
    with pytest.raises(ValueError, match=r"unknown prompt set 'indirect' .*; there is: acronyms, agreement, capitals"):
        prompt_set("indirect", bytes_alone)
    with pytest.raises(ValueError, match="8 prompts of capitals or more"):
        prompt_set("capitals", bytes_alone, n=2)
    short = model_of(of_prompts(), max_position_embeddings=8)
    with pytest.raises(ValueError, match=r"of 96 of its prompts 0 are cut where they should be"):
        prompt_set("indirect-objects", short, n=8)


def test_a_set_with_fewer_prompts_than_asked_for_says_how_many(
    model: Pretrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_sets, "TRIES", 1)
    drawn = prompt_set("successors", model, n=96)
    n = len(drawn.pairs)
    assert n < 96 and drawn.notes[-1] == f"There are {n} such prompts, fewer than 96."


def test_a_file_of_a_sets_name_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named("capitals") == "capitals" and named("some/capitals") is None and named("capitals.csv") is None
    with pytest.raises(ValueError, match=r"unknown file or prompt set 'capital' \(did you mean 'capitals'\?\)"):
        named("capital")
    monkeypatch.chdir(tmp_path)
    Path("capitals").write_text("a text", encoding="utf-8")
    assert named("capitals") is None


def test_one_prompt_is_its_pair_without_padding(model: Pretrained) -> None:
    prompts = prompt_set("agreement", model, n=12)
    for i in range(len(prompts.pairs)):
        for changed, side in ((False, prompts.pairs.clean), (True, prompts.pairs.corrupted)):
            alone, end = prompts.example(i, changed=changed), int(side.loss_mask[i].nonzero())
            assert torch.equal(alone.tokens[0], side.tokens[i, : end + 1])
            assert (
                alone.loss_mask[0].nonzero().flatten().tolist() == [end]
                and alone.targets[0, end] == side.targets[i, end]
            )
