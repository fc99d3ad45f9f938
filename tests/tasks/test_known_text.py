"""A text is known by its content: trained on, held out, or neither, whatever its file is called."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workbench.tasks import Task, make, own_sequences
from workbench.tasks.known_text import FILE, KnownText, Origin
from workbench.util.seeds import generator

HELD_OUT, TRAINED, GIVEN, MIXED = Origin.HELD_OUT, Origin.TRAINED, Origin.GIVEN, Origin.MIXED


def tokens(n: int, of: str = "text") -> torch.Tensor:
    return torch.randint(0, 50, (n,), generator=generator(0, of))


def test_pieces_are_known_whatever_surrounds_them_and_wherever_they_are_cut(tmp_path: Path) -> None:
    text = tokens(2000)
    known = KnownText.of([text[:1800]], [text[1800:]])
    known.save(tmp_path)
    again = KnownText.read(tmp_path)
    assert again is not None
    longer = torch.cat([tokens(500, "before"), text, tokens(500, "after")])
    found = again.origins(longer[37:].split(40)[:-1])
    assert found[:10] == [GIVEN] * 10 and set(found[12:55]) == {TRAINED} and set(found[57:60]) == {HELD_OUT}
    assert set(found[-10:]) == {GIVEN} and KnownText.read(tmp_path / "elsewhere") is None


def test_a_long_text_keeps_one_window_in_some_and_a_short_piece_is_as_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.tasks.known_text.MOST", 500)
    text = tokens(4000)
    known = KnownText.of([text], [])
    assert known.seen[0].rate == 8 and len(known.seen[0].trained) <= 500
    assert set(known.origins(text.split(20))) == {TRAINED} and set(known.origins(tokens(900, "x").split(90))) == {GIVEN}


def test_what_a_model_began_with_counts_too_and_training_outweighs_holding_out() -> None:
    first, second = tokens(400, "a"), tokens(400, "b")
    before = KnownText.of([first[:200]], [first[200:]])
    after = KnownText.of([second, first[200:300]], [], before)
    assert after.origins([first[:40], first[220:260], first[340:380], second[:40]]) == [
        TRAINED,
        TRAINED,
        HELD_OUT,
        TRAINED,
    ]


def test_sequences_say_what_they_are_to_the_model_that_is_inspected_on_them(tmp_path: Path) -> None:
    text = tokens(400)
    known = KnownText.of([text[:300]], [text[300:]])

    def task(rows: torch.Tensor) -> Task:
        return own_sequences(list(rows.split(50)), 50, known=known)

    assert (task(text[:300]).measured_on, task(text[300:]).measured_on, task(text).measured_on) == (
        TRAINED,
        HELD_OUT,
        MIXED,
    )
    assert task(tokens(100, "x")).measured_on == own_sequences(list(text.split(50)), 50).measured_on == GIVEN
    both = task(text)
    drawn = both.sample(8, generator(0), split="test").tokens
    assert both.origins == (HELD_OUT, TRAINED) and sorted(both.origins_of(drawn)) == [HELD_OUT] * 2 + [TRAINED] * 6


def test_a_text_s_own_split_is_known_block_by_block(tmp_path: Path) -> None:
    rows = tokens(4000).tolist()
    (tmp_path / "t.txt").write_bytes(bytes(65 + row % 26 for row in rows))
    task = make("text", path=str(tmp_path / "t.txt"), block=40)
    assert task.known_text is not None and make("sorting").known_text is None
    for side, origin in (("train", TRAINED), ("test", HELD_OUT)):
        drawn = task.sample(32, generator(1), split=side).tokens  # type: ignore[arg-type]
        assert set(task.known_text.origins(list(drawn))) == {origin}
    assert FILE.endswith(".safetensors"), "so it goes where a model's weights go"
