"""Labels that a running text gives itself: words, quotations, lines."""

from __future__ import annotations

import pytest
import torch

from workbench.probes import label_names, labels
from workbench.tasks import Vocabulary, own_sequences
from workbench.tasks.text_labels import NAMES

PIECES = ["x", " said", ",", ' "', "Mar", "ia", ',"', " there", "\n", "So", " un", "be", "liev", "able", ".", " He", ""]


def found(pieces: list[str]) -> dict[str, list[int]]:
    """The labels of one text of these tokens."""
    ids = {piece: i for i, piece in enumerate(dict.fromkeys([*pieces, "<pad>"]))}
    task = own_sequences(
        [torch.tensor([ids[piece] for piece in pieces])],
        len(ids),
        words=Vocabulary(tuple(map(str, ids.values())), (*ids,)),
    )
    return {name: values[0].tolist() for name, values in labels(task, task.tokens).items()}


def test_labels_of_a_text_are_as_its_words_quotations_and_lines() -> None:
    told = found(PIECES)
    assert set(told) == set(NAMES)
    letters = [chr(letter) if letter >= 0 else " " for letter in told["next_letter"]]
    assert "".join(letters) == "s  m  t su    h  "
    assert told["word_part"] == [-1, 0, -1, -1, 1, 3, -1, 0, -1, 0, 1, 2, 2, 3, -1, -1, -1]
    assert told["in_quotes"] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert told["line_position"] == [-1] * 9 + [0, 1, 2, 3, 4, 5, 6, 7]
    assert set(told["repeated"]) == {0}


def test_what_a_piece_cut_out_of_a_text_cannot_know_has_no_label() -> None:
    told = found(["itch", " and", " b", "rew", "\n\n", "itch", " th"])
    assert told["word_part"] == [-1, 0, 1, 3, -1, 0, -1]  # the first may have begun before, the last goes on
    assert set(told["in_quotes"]) == {-1}
    assert told["line_position"] == [-1, -1, -1, -1, -1, 0, 1]
    assert told["repeated"] == [0, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("pieces", "inside"),
    [
        (["she", " said", '."', " Then", ' "', "No"], [1, 1, 0, 0, 1, 1]),  # it began before the piece
        (["a", " “", "b", "”", " «", "c", "»"], [0, 1, 1, 0, 1, 1, 0]),
        (["a", " „", "b", "“", " c"], [0, 1, 1, 0, 0]),
        (["a", ' "', "b", ',"', "c", '"', "d"], [0, 1, 1, 0, 0, 1, 1]),  # no space on either side: it is the other
    ],
)
def test_a_quotation_is_open_from_its_mark_to_the_next(pieces: list[str], inside: list[int]) -> None:
    assert found(pieces)["in_quotes"] == inside


def test_words_of_ones_own_stand_apart_and_padding_has_no_label() -> None:
    task = own_sequences([torch.tensor([0, 1, 2]), torch.tensor([1, 1])], 4, words=["Ann", "saw", "it", "-"], pad=3)
    told = labels(task, torch.tensor([[0, 1, 2], [1, 1, 3]]))
    assert told["next_letter"].tolist() == [[ord("s"), ord("i"), -1], [ord("s"), -1, -1]]
    assert told["word_part"].tolist() == [[0, 0, -1], [0, -1, -1]]
    assert told["repeated"].tolist() == [[0, 0, 0], [0, 1, -1]]
    assert set(label_names(task)) == set(NAMES)
