"""The docs' table of what of TransformerLens works names every public function, and says what is so."""

from __future__ import annotations

import re

import pytest

from tests.models.transformer_lens_calls import CACHE, TABLES, Subject, public
from tests.models.transformer_lens_table import PAGE, SUBJECTS, outcome, page


def test_every_public_function_is_called() -> None:
    """A new version of TransformerLens that has other functions is noticed here."""
    assert {name for calls in TABLES.values() for name in calls} == public()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_table_is_what_the_calls_give() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page() == written, "python -m tests.models.transformer_lens_table"
    assert set(re.findall(r"\| `([^`]+)` \|.*no \(", written)) == {
        "ActivationCache.compute_ssm_effective_attention",
        "ActivationCache.compute_ssm_state",
    }


def test_a_call_that_fails_or_gives_other_numbers_is_told() -> None:
    subject = SUBJECTS["ChaCAL"]()

    def wrong(s: Subject) -> object:
        return s.cache["z", 0], s.cache["z", 1]

    assert outcome(CACHE["ActivationCache.decompose_resid"], subject) == "yes"
    assert outcome(wrong, subject).startswith("AssertionError: Tensor-likes are not close")
    assert outcome(lambda s: s.model.to_tokens("no word"), subject).startswith("ValueError: token 'no'")
    assert outcome(lambda s: s.cache["z", 0] / 0, subject) == "AssertionError: numbers that are not finite"
