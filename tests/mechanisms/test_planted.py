"""Traps: models that look as if they had a mechanism which another one has; what is planted is what is found."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from workbench.benchmark import subjects
from workbench.benchmark.subjects import Planted
from workbench.capture import Subject, capture
from workbench.instruments.attention import attention_graph
from workbench.judgement.used import CHANGED
from workbench.mechanisms import MECHANISMS, chain_following
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.probes import causal_test
from workbench.probes.fitting import Split, decode
from workbench.tasks import make
from workbench.util.seeds import generator


@cache
def picked_out(name: str) -> np.ndarray:
    """`[head, hop]`: how often a head's row picks out the ancestor that far."""
    trap = subjects.make(name)
    batch = trap.task().sample(128, generator(0, "score"))
    seen = capture(trap.hooked(), trap.subject, batch, chain_following.needs(trap.subject))
    return chain_following.score(seen).mean("example").values[0]


@cache
def causal(name: str, head: int | None) -> tuple[np.ndarray, np.ndarray]:
    """`claimed as claimed` and `elsewhere changed`, by hop, when one head's edges are cut, or those of all."""
    trap = subjects.make(name)
    batch = trap.task().sample(128, generator(0, "causal"))
    found = chain_following.causal(
        trap.hooked(), trap.subject, batch, generator(1), heads=None if head is None else [(0, head)]
    )
    mean = found.mean("example")
    return (
        mean.select(edit="claimed", outcome="as claimed").values,
        mean.select(edit="elsewhere", outcome="changed").values,
    )


def test_a_decoy_looks_along_every_chain_and_nothing_is_lost_without_it() -> None:
    assert (picked_out("decoy") == 1).all()
    assert (causal("decoy", 0)[0] == 0).all()
    assert (causal("decoy", 1)[0] == 1).all() and (causal("decoy", 1)[1] == 0).all()
    assert (causal("decoy", None)[0] == 1).all()  # which is why all heads together say nothing of one


def test_the_decoy_is_the_head_that_has_most_of_its_mass_on_gold_paths() -> None:
    """So that whoever picks a head by where it looks picks the decoy."""
    trap = subjects.make("decoy")
    batch = trap.task().sample(64, generator(2))
    seen = capture(trap.hooked(), trap.subject, batch, attention_graph.needs(trap.subject))
    assert attention_graph.best_head(attention_graph.measure(seen)) == (0, 0) and trap.truth.decoys == ("a0.h0",)


def test_heads_that_split_chains_by_parity_follow_half_each() -> None:
    found = picked_out("split")
    assert found == pytest.approx(0.5, abs=0.01)
    one, other, both = (causal("split", head)[0] for head in (0, 1, None))
    assert ((one > 0.3) & (one < 0.7)).all() and one + other == pytest.approx(1, abs=0.25)
    assert (both == 1).all()


def test_heads_that_share_out_the_ancestors_look_alike_and_each_loses_its_own() -> None:
    assert (picked_out("shared_out") == 1).all()
    one, other, both = (causal("shared_out", head)[0] for head in (0, 1, None))
    assert (both == 1).all() and (one < 0.9).all() and (other < 0.9).all()
    assert one[-1] > 0.2 and other[-1] > 0.2


def test_a_backup_loses_nothing_and_both_lose_everything() -> None:
    assert (picked_out("backups") == 1).all()
    for head in (0, 1):
        assert (causal("backups", head)[0] == 0).all()
    assert (causal("backups", None)[0] == 1).all()


def test_an_answer_of_the_mlp_alone_needs_no_edge_of_its_gold_pattern() -> None:
    assert (picked_out("mlp_alone") == 1).all()
    for head in (0, None):
        assert (causal("mlp_alone", head)[0] == 0).all()


def decoded(trap: Planted, label: str, point: str, kind: str = "logistic") -> float:
    """Share of held-out sequences whose label a probe at `=` decodes."""
    batch = trap.task().sample(600, generator(4))
    seen = capture(trap.hooked(), trap.subject, batch, [point])
    y = trap.task().truth(batch.tokens).labels[label][:, -1]
    split = Split.by_example(torch.arange(600), generator(5))
    x = seen[point][None, None, :, -1]
    return float(decode(x, [y[None]], split, kind=kind, generator=generator(6)).mean())


def changed(trap: Planted, label: str, point: str) -> float:
    """Share of the answers that change when the label's directions are exchanged with those of another label."""
    (use,) = causal_test(trap, label, point=point, n=128).values()
    assert use.untested is None
    return float(use.effect.select(edit="another label", outcome=CHANGED).values)


@pytest.mark.parametrize("seed", [None, 1])
def test_an_exclusive_or_is_along_no_direction_before_the_mlp_and_along_one_after_it(seed: int | None) -> None:
    trap = subjects.make("exclusive_or", seed)
    before, after = "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"
    assert decoded(trap, "first", before) == decoded(trap, "second", before) == 1
    # A direction has up to three of the four pairs of bits right, which pays where a draw has fewer of the fourth.
    assert decoded(trap, "differ", before) < 0.85 and decoded(trap, "differ", before, kind="mlp") == 1
    assert decoded(trap, "differ", after) == 1
    assert changed(trap, "differ", after) == 1


@pytest.mark.parametrize("seed", [None, 1])
def test_a_read_out_in_a_late_layer_is_decoded_before_it_is_used(seed: int | None) -> None:
    trap = subjects.make("late", seed)
    early, used = "blocks.0.hook_resid_mid", "blocks.1.hook_resid_mid"
    assert decoded(trap, "first", early) == decoded(trap, "first", used) == 1
    assert changed(trap, "first", early) == 0 and changed(trap, "first", used) == 1


@pytest.mark.parametrize("seed", [None, 1])
def test_a_minimum_that_is_held_and_not_read_is_decoded_and_never_used(seed: int | None) -> None:
    trap = subjects.make("idle_minimum", seed)
    held = "blocks.0.hook_resid_post"
    assert decoded(trap, "minimum", held) == decoded(trap, "first", held) == 1
    assert changed(trap, "minimum", held) == 0 and changed(trap, "first", held) == 1


@pytest.mark.parametrize("seed", [None, 1])
def test_a_probe_reads_the_symbol_that_a_permuted_code_stands_for(seed: int | None) -> None:
    trap = subjects.make("permuted_code", seed)
    assert decoded(trap, "first", "blocks.0.hook_resid_mid") == 1
    assert changed(trap, "first", "blocks.0.hook_resid_mid") == 1


@cache
def of_sorter(rotate_seed: int | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Each sorting claim's mean score and causal test on the compiled sorter."""
    task = make("sorting", q=8, max_length=8)
    model = sorter(8, rotate_seed, task.n_ctx, pad=True)
    subject, hooked = Subject.of(model, task, "sorter"), hook(model)
    batch = task.sample(128, generator(0, "rotated"))
    claims = {name: claim for name, claim in MECHANISMS.items() if claim.why_not(subject) is None}
    seen = capture(
        hooked, subject, batch, sorted({point for claim in claims.values() for point in claim.needs(subject)})
    )
    return {
        name: (
            claim.score(seen).mean("example").values,
            claim.causal(hooked, subject, batch, generator(1)).mean("example").values,
        )
        for name, claim in claims.items()
    }


@pytest.mark.parametrize("rotate_seed", [1, 2, 3])
def test_a_rotated_basis_changes_no_claim_of_the_sorter(rotate_seed: int) -> None:
    """But for what is level in the plain basis, which rounding decides in a turned one."""
    plain, turned = of_sorter(None), of_sorter(rotate_seed)
    assert plain.keys() == turned.keys() == {"copy", "minimum", "successor", "identity_removed"}
    for name, (score, causal_test_of_it) in plain.items():
        told = (
            score > 0.99
        )  # what attention alone writes for a copy is nothing: 1/8 as all symbols tie, or as rounding has it
        assert turned[name][0][told] == pytest.approx(1) and (turned[name][0][~told] < 0.2).all(), name
        assert turned[name][1] == pytest.approx(causal_test_of_it), name
        assert causal_test_of_it[0, 0] == 1 and causal_test_of_it[-1, 1] == 0, name
    assert plain["copy"][0] == pytest.approx([1, 1, 1, 1, 1 / 8, 1 / 8])
