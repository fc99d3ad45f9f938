"""Head roles, logit lens, direct attribution and patching of language models have TransformerLens's numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformer_lens_questions import QUESTIONS, Asked

import workbench
from tests.models.architecture_table import build
from tests.models.real_model import needs_real_model, real_model
from workbench.models.pretrained import Pretrained

CLOSE = 1e-5  # of the largest number


def check(asked: Asked, question: str) -> None:
    ours, theirs = QUESTIONS[question]
    with torch.no_grad():
        own, expected = ours(asked), theirs(asked)
    assert own.shape == expected.shape
    apart = float((own - expected).abs().max())
    assert apart <= CLOSE * max(1.0, float(expected.abs().max())), apart
    assert float(expected.std()) > 1e-4, "they are not all alike"


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_of_small_models_with_random_weights(name: str, question: str) -> None:
    check(Asked.of(Pretrained(build(name)), n=4), question)


@needs_real_model
def test_of_a_language_model_that_people_use(tmp_path: Path) -> None:
    model = workbench.load_model(real_model(tmp_path), progress=False)
    for question in QUESTIONS:
        check(Asked.of(model, n=2), question)
