"""The null of every measure: another example's truth, of equal length."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph
from workbench.measurement.controls.mismatched import mismatched
from workbench.models.attention.chacal import ChacalAttention
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

TASK = Sorting(q=30, max_length=4)


def sorted_capture(stage, n: int) -> Capture:  # type: ignore[no-untyped-def]
    batch = TASK.sample(n, generator(0, "control test"))
    capture = stage(batch.tokens, pad=31)
    marked = {name: value.clone() for name, value in capture.activations.items()}
    for value in marked.values():
        value.reshape(n, -1)[:, 0] = torch.arange(n)
    batch.targets[:, 0] = torch.arange(n)  # not scored; it marks whose truth this is
    return replace(
        capture,
        activations=marked,
        batch=batch,
        given_truth=TASK.truth(batch.tokens),
        subject=replace(capture.subject, task=TASK),
    )


def test_no_example_keeps_its_own_truth_and_lengths_agree(stage) -> None:  # type: ignore[no-untyped-def]
    capture = sorted_capture(stage, 40)
    found = mismatched(capture, generator(1, "control"))
    own = capture["blocks.0.hook_resid_mid"][:, 0, 0]
    kept = found["blocks.0.hook_resid_mid"][:, 0, 0].long()
    assert len(own) == len(kept) == 40 and kept.sort().values.tolist() == list(range(40))
    lengths = TASK.lengths(capture.batch.tokens)
    assert torch.equal(TASK.lengths(found.batch.tokens), lengths[kept])
    assert (found.batch.targets[:, 0] != kept).all()


def test_tokens_targets_labels_and_edges_move_together(stage) -> None:  # type: ignore[no-untyped-def]
    found = mismatched(sorted_capture(stage, 40), generator(1, "control"))
    again = TASK.truth(found.batch.tokens)
    for name, label in again.labels.items():
        assert torch.equal(found.truth.labels[name], label)
    as_set = lambda edges: set(map(tuple, edges.tolist()))  # noqa: E731
    assert as_set(found.truth.edges) == as_set(again.edges) and len(again.edges)
    assert torch.equal(found.batch.loss_mask, found.truth.labels["length"].ge(0) & found.batch.loss_mask)


def test_an_example_alone_in_its_length_is_left_out(stage) -> None:  # type: ignore[no-untyped-def]
    found = mismatched(sorted_capture(stage, 1), generator(1, "control"))
    assert len(found.batch) == 0 and found.logits.shape[0] == 0 and len(found.truth.edges) == 0


def test_what_was_computed_of_the_activations_goes_with_them(stage) -> None:  # type: ignore[no-untyped-def]
    """A resolvent that is kept with a capture is that of the patterns beside it, also where an example is left out."""
    chacal, name, kept = ChacalAttention(gamma=0.9), "blocks.0.attn.hook_pattern", set()
    for n in (40, 5):
        capture = sorted_capture(stage, n)
        n_pos = capture.batch.tokens.shape[1]
        patterns = torch.rand(n, 2, n_pos, n_pos, generator=generator(2, "patterns")).tril()
        subject = replace(capture.subject, attention=(chacal,))
        capture = replace(capture, activations={name: attention_graph.unit_rows(patterns)}, subject=subject)
        attention_graph.resolvent(capture, 0)
        found = mismatched(capture, generator(1, "control"))
        anew = attention_graph.unit_rows(chacal.mixing_matrix(found[name]))
        assert torch.equal(attention_graph.resolvent(found, 0), anew) and len(anew) == len(found.batch) > 0
        kept.add(len(anew) == n)
    assert kept == {True, False}
