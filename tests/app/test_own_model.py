"""The explorer on models that know nothing of this library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.app import support
from tests.app.conftest import APP
from tests.models.own_modules import CONTEXT, KINDS, VOCABULARY
from workbench.models import MODELS
from workbench.runs import save_model
from workbench.tasks import own_sequences
from workbench.util.seeds import generator

DRAWN = {
    "canvas": 4,
    "residual": 6,
    "entropy": 3,
    "hops": 4,
    "mechanisms": 1,
    "probes": 2,
    "training": 0,
    "overview": 0,
}
"""Page -> charts and drawings of a run whose attention is seen."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The explorer over two models of one's own: of one attention is seen, of the other it is not."""
    rows = torch.randint(VOCABULARY, (64, CONTEXT), generator=generator(0, "tokens"))
    for kind in ("fused", "unseen"):
        monkeypatch.setitem(MODELS, kind, KINDS[kind])
        given = own_sequences(rows[:16], VOCABULARY, training=rows[16:], words=[f"w{i}" for i in range(VOCABULARY)])
        save_model(tmp_path / kind, KINDS[kind].fresh({}, generator(0, kind)), kind, given)
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    return AppTest.from_file(str(APP), default_timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("page", DRAWN)
def test_every_page_shows_what_is_seen_of_it(own: AppTest, page: str) -> None:
    support.page(own, page, run="fused")
    assert not own.error and len(support.charts(own)) + len(support.drawings(own)) == DRAWN[page]
    said = [text.value for text in own.caption]
    assert any("2 × fused; width 32, 4 heads" in text and "not trained here" in text for text in said)


@pytest.mark.slow
def test_where_attention_is_not_seen_the_page_says_why_and_the_residual_is_there(own: AppTest) -> None:
    support.page(own, "canvas", run="unseen")
    assert not own.error and any("no attention pattern is seen in layer 0" in text.value for text in own.info)
    support.page(own, "entropy", run="unseen")
    assert not own.error and len(support.charts(own)) == 3
