"""Figures of heads in the weights alone: cells, words and bars are those of the measurements."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

from tests.figures.test_canvas import unpacked
from workbench import figures
from workbench.capture import Subject
from workbench.instruments.weights import composition, token_circuits
from workbench.judgement.words.figures import largest_of_rows, spread_of_scores
from workbench.measurement.numbers import number
from workbench.models import Decoder, DecoderConfig
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("pointer_chain", n=12, k=3)
MODEL = Decoder(DecoderConfig(n_layers=2, d_model=24, n_heads=2, d_vocab=12, n_ctx=12), generator(0)).eval()
SUBJECT = Subject.of(MODEL, TASK, "model")


def drawn_pixels(drawing: figures.Drawing) -> np.ndarray:
    """What the picture of a map shows: its opacity, negative where it has the colour of negative entries."""
    href = ET.fromstring(drawing.svg()).find(".//{http://www.w3.org/2000/svg}image").attrib["href"]  # type: ignore[union-attr]
    rgba = unpacked(b64decode(href.split(",")[1])).astype(float)
    red_first = rgba[..., 0] > rgba[..., 2]
    return np.where(red_first, -1, 1) * rgba[..., 3] / 255


def test_a_circuit_is_a_signed_map_and_what_is_read_a_map_from_zero() -> None:
    circuit = token_circuits.circuit(SUBJECT, 1, 0, "OV")
    drawing = figures.token_circuit(circuit, chosen=(3, 7))
    assert drawn_pixels(drawing) == pytest.approx(circuit.values / np.abs(circuit.values).max(), abs=0.003)
    assert np.array(drawing.data["grid"]["values"]) == pytest.approx(circuit.values, rel=1e-3)
    assert "token read" in drawing.body and "logit of" in drawing.body and 'data-at="3,7"' in drawing.body
    reads = token_circuits.reads(SUBJECT, 1, 0).select(matrix="mixing")
    assert (drawn_pixels(figures.token_circuit(reads)) >= 0).all()
    assert "query" in figures.token_circuit(reads).body
    with pytest.raises(ValueError, match="12 rows"):
        figures.token_circuit(circuit, chosen=(12, 0))


def test_of_a_large_vocabulary_the_picture_keeps_the_largest_entries() -> None:
    circuit = token_circuits.circuit(SUBJECT, 1, 0, "OV")
    values = np.full((1100, 1000), 0.1)
    values[1099, 500] = -2.0
    words = [f"token{i:06d} " * 3 for i in range(1100)]
    large = replace(circuit, values=values, coords={"from": words, "to": words[:1000]})
    drawing = figures.token_circuit(large)
    shown = drawn_pixels(drawing)
    assert max(shown.shape) <= 520 and shown.min() == -1 and (shown == -1).sum() == 1
    assert shown[-1].argmin() == 500 // 3 and "values" not in drawing.data["grid"]
    assert drawing.width < 900 and len(drawing.body) < 60_000


def test_a_square_of_few_tokens_says_at_which_step_its_largest_entries_stand() -> None:
    circuit = token_circuits.circuit(SUBJECT, 1, 0, "QK")
    shifted = replace(circuit, values=np.eye(12, k=2) + 1e-3 * circuit.values)
    said = largest_of_rows(shifted)
    assert said is not None and said.startswith("10 of 12 rows have their largest entry at the token 2 places after it")
    assert "itself" in str(largest_of_rows(replace(circuit, values=np.eye(12))))
    mixed = np.eye(12)[np.random.default_rng(0).permutation(12)]
    assert "no one step" in str(largest_of_rows(replace(circuit, values=mixed)))


def test_tokens_that_are_numbers_may_point_at_positions_and_others_may_not() -> None:
    values = np.eye(12)
    values[7] = values[3]  # one of them points elsewhere
    circuit = token_circuits.circuit(SUBJECT, 1, 0, "QK")
    numbers = [str(i) for i in range(12)]
    pointing = replace(
        circuit, values=values, coords={"from": numbers, "to": numbers}, settings={"kind": "QK token-position"}
    )
    assert str(largest_of_rows(pointing)).startswith("11 of 12 tokens score highest the position of their number")
    letters = replace(pointing, coords={"from": list("abcdefghijkl"), "to": numbers})
    assert str(largest_of_rows(letters)).startswith("Largest of all: a → 0")


def test_what_a_head_matches_is_said_with_the_widest_spread_first() -> None:
    spread = replace(
        token_circuits.spreads(SUBJECT, 1, 0), values=np.array([0.5, 6.0, 4.0]),
        coords={"circuit": ["QK", "QK token-position", "QK position-position"]},
    )  # fmt: skip
    said = str(spread_of_scores(spread))
    assert said.startswith("In its weights the head picks mostly positions by tokens") and "6" in said.split("where")[0]


def test_the_table_has_the_strongest_directions_with_their_tokens() -> None:
    vectors = token_circuits.singular_vectors(SUBJECT, 0, 1, "QK", top=3)
    (table,) = figures.singular_vectors(vectors, most=5).data
    sigma, query, key = table.cells.values
    assert list(sigma) == [f"{value:.2f}" for value in vectors.settings["singular_values"][:5]]
    assert query[0] == "  ".join(vectors.labels[0, 0]) and key[4] == "  ".join(vectors.labels[4, 1])
    assert table.header.values[1:] == ("query side", "key side")


def test_the_ends_of_the_bars_are_labelled_where_their_labels_do_not_lie_on_that_of_zero() -> None:
    entry = token_circuits.path(SUBJECT, 0, 1, "OV", start=2, end=5)
    for low, labels in ((-0.01, ["0", "2"]), (-1.0, ["-1", "0", "2"]), (0.5, ["0", "2"])):
        of = replace(entry, values=np.linspace(low, 2.0, len(entry.values)))
        ends = [
            part for part in ET.fromstring(figures.circuit_entry(of).svg()).iter() if part.get("text-anchor") == "end"
        ]
        assert sorted(str(part.text) for part in ends) == labels


def test_bars_sum_to_the_entry_that_is_said_and_composition_names_its_heads() -> None:
    entry = token_circuits.path(SUBJECT, 0, 1, "OV", start=2, end=5)
    drawing = figures.circuit_entry(entry)
    tips = [rect.attrib["data-tip"] for rect in ET.fromstring(drawing.svg()).iter() if "data-tip" in rect.attrib]
    assert len(tips) == 12
    assert sum(float(tip.split(": ")[1].split()[0]) for tip in tips) == pytest.approx(entry.settings["entry"], abs=1e-3)
    assert f"2 → 5: {number(entry.settings['entry'])} logit" in drawing.subtitle
    scores = composition.measure(SUBJECT)
    (heat,) = figures.composition_scores(scores, "V").data
    assert list(heat.x) == list(heat.y) == ["0.0", "0.1", "1.0", "1.1"]
    assert heat.z[0][2] == pytest.approx(scores.values[2, 0, 0, 1, 0]) and np.isnan(heat.z[2][0])
