"""Figures of heads in the weights alone: cells, words and bars are those of the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from workbench import figures
from workbench.capture import Subject
from workbench.instruments.weights import composition, token_circuits
from workbench.models import Decoder, DecoderConfig
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("pointer_chain", n=12, k=3)
MODEL = Decoder(DecoderConfig(n_layers=2, d_model=24, n_heads=2, d_vocab=12, n_ctx=12), generator(0)).eval()
SUBJECT = Subject.of(MODEL, TASK, "model")


def test_a_circuit_is_a_signed_map_and_what_is_read_a_map_from_zero() -> None:
    circuit = token_circuits.circuit(SUBJECT, 1, 0, "OV")
    drawn = figures.token_circuit(circuit)
    assert np.array(drawn.data[0].z) == pytest.approx(circuit.values) and drawn.data[0].zmin == -drawn.data[0].zmax
    assert (drawn.layout.yaxis.title.text, drawn.layout.xaxis.title.text) == ("token read", "logit of")
    reads = token_circuits.reads(SUBJECT, 1, 0).select(matrix="mixing")
    assert figures.token_circuit(reads).data[0].zmin == 0
    assert figures.token_circuit(reads).layout.yaxis.title.text == "query"


def test_the_table_has_the_strongest_directions_with_their_tokens() -> None:
    vectors = token_circuits.singular_vectors(SUBJECT, 0, 1, "QK", top=3)
    (table,) = figures.singular_vectors(vectors, most=5).data
    sigma, query, key = table.cells.values
    assert list(sigma) == [f"{value:.2f}" for value in vectors.settings["singular_values"][:5]]
    assert query[0] == "  ".join(vectors.labels[0, 0]) and key[4] == "  ".join(vectors.labels[4, 1])
    assert table.header.values[1:] == ("query side", "key side")


def test_bars_sum_to_the_entry_that_is_said_and_composition_names_its_heads() -> None:
    entry = token_circuits.path(SUBJECT, 0, 1, "OV", start=2, end=5)
    drawn = figures.circuit_entry(entry)
    assert sum(drawn.data[0].y) == pytest.approx(entry.settings["entry"])
    assert f"2 → 5: {entry.settings['entry']:.3f} logit" in drawn.layout.title.subtitle.text
    scores = composition.measure(SUBJECT)
    (heat,) = figures.composition_scores(scores, "V").data
    assert list(heat.x) == list(heat.y) == ["0.0", "0.1", "1.0", "1.1"]
    assert heat.z[0][2] == pytest.approx(scores.values[2, 0, 0, 1, 0]) and np.isnan(heat.z[2][0])
