"""Figures show tokens as they are written, also those that Plotly would take for markup, such as Llama's `<s>`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import plotly.graph_objects as go
import pytest

from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import byte_fallback
from workbench import figures
from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.figures.style import in_one_line
from workbench.instruments.attention import attention_graph
from workbench.instruments.attention.strongest_paths import across_layers, within_layer
from workbench.instruments.lens import logit_lens
from workbench.instruments.residual import projection
from workbench.instruments.residual.trajectory import trajectory
from workbench.instruments.weights import basis_overlap
from workbench.interventions.swap import Places, swap
from workbench.models.pretrained import Pretrained


@pytest.fixture(scope="module")
def model() -> Pretrained:
    made = byte_fallback()
    return Pretrained(tiny("llama", vocab_size=len(made), pad_token_id=None, bos_token_id=None), made)


@pytest.fixture(scope="module")
def seen(model: Pretrained) -> Capture:
    """A text with a beginning and an end."""
    subject = Subject.of(model, model.sequences(["cat cat", "The cat"]), "tiny")
    names = {*logit_lens.needs(subject), *attention_graph.needs(subject), LOGITS}
    return capture(model.hooked(), subject, model.batch("cat</s>cat"), names)


def every_figure(model: Pretrained, seen: Capture) -> Iterator[go.Figure]:
    m = attention_graph.matrices(seen, 0, 0, 0, 2)
    pattern, names = seen["blocks.0.attn.hook_pattern"][0], projection.position_names(seen, 0)
    yield figures.attention_matrix(m, "pattern")
    yield figures.attention_arcs(m, "pattern")
    yield figures.attention_difference(m, m, "pattern")
    yield figures.side_by_side({"one": m.select(matrix="pattern")})
    yield figures.path_arcs(within_layer(pattern[0].tril(-1), 3, 0), names, "Paths")
    yield figures.path_layers(across_layers([pattern, pattern], 3, 0), names, "Paths")
    yield figures.lens_map(logit_lens.lens_tokens(seen, 0))
    yield figures.paper_projection(trajectory(seen, 0, 0, tokens=range(5)))
    yield figures.token_trajectory(trajectory(seen, 0, 0, tokens=[1, 2, 5]))
    yield figures.basis_cosines(basis_overlap.basis_cosines(seen.subject, [1, 2, 5]))
    source, target = model.tokens("cat</s>cat"), model.tokens("The cat")
    yield figures.swap(swap(model.hooked(), seen.subject, source, target, Places(0, 0), n_random=1))


def strings(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    for each in given.values() if isinstance(given, dict) else given if isinstance(given, list) else ():
        yield from strings(each)


def test_no_token_is_taken_for_markup(model: Pretrained, seen: Capture) -> None:
    for figure in every_figure(model, seen):
        shown = list(strings(json.loads(figure.to_json())))
        assert any("&lt;s>" in text or "&lt;/s>" in text for text in shown), figure.layout.title.text
        assert not any("<s>" in text or "</s>" in text for text in shown), figure.layout.title.text


def test_a_title_in_plain_text_has_the_token_as_it_is(seen: Capture) -> None:
    figure = figures.token_trajectory(trajectory(seen, 0, 0, tokens=[1, 2]))
    assert "&lt;s>" in figure.layout.title.text and "<s>" in in_one_line(figure.layout.title.text)
