"""Long inputs: the choice of a head takes fewer of them, and fewer still the many models that know nothing."""

from __future__ import annotations

import pytest

from workbench.capture import Subject
from workbench.inspection.baseline_models import data_to_choose_heads_on
from workbench.inspection.one_run import _sequences_for_fresh_models
from workbench.instruments.attention import attention_graph
from workbench.models import Decoder, DecoderConfig
from workbench.tasks import make
from workbench.util.seeds import generator


@pytest.mark.parametrize(("n", "own", "fresh"), [(16, 64, 64), (128, 64, 64), (256, 16, 8), (512, 4, 2), (1024, 4, 2)])
def test_how_many_sequences_of_a_length_are_looked_at(n: int, own: int, fresh: int) -> None:
    task = make("pointer_chain", n=n, k=8)
    shape = DecoderConfig(d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, n_layers=1, d_model=8, n_heads=2, d_mlp=8)
    subject = Subject.of(Decoder(shape, generator(0)), task, "fresh")
    chosen_on = data_to_choose_heads_on(subject, attention_graph.needs(subject), seed=0)
    assert chosen_on is not None and len(chosen_on) == own
    assert _sequences_for_fresh_models([({}, 0, chosen_on)], task) == fresh
