"""Without the edge of a hop, the compiled chaser loses exactly what rests on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import Subject
from workbench.mechanisms import chain_following
from workbench.mechanisms.chain_following import _ChainAnswers, _Knockout
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import chaser
from workbench.models.hooked import hook
from workbench.tasks import Batch, Task, Truth, make
from workbench.util.seeds import generator


def stage(n: int = 64, rotate_seed: int | None = None, **task: Any) -> tuple[Any, Subject, Batch]:
    chain = make("pointer_chain", **{"n": 20, "k": 4, **task})
    model = chaser(chain.n, chain.k, rotate_seed, reading=chain.reading)  # type: ignore[attr-defined]
    return hook(model), Subject.of(model, chain, "chaser"), chain.sample(n, generator(0, "knockout test"))


@pytest.mark.parametrize("rotate_seed", [None, 1])
def test_a_set_of_ancestors_loses_all_beyond_the_cut_and_nothing_else(rotate_seed: int | None) -> None:
    model, subject, batch = stage(reading="chain", rotate_seed=rotate_seed)
    causal = chain_following.causal(model, subject, batch, generator(1))
    assert causal.dims == ("edit", "outcome", "hop", "example") and list(causal.coords["hop"]) == [1, 2, 3, 4]
    assert (causal.select(edit="claimed").values == 1).all()
    elsewhere = causal.select(edit="elsewhere").values  # not a number where no gold edge comes before the query
    assert np.nanmax(elsewhere) == 0 and np.isnan(elsewhere).mean() < 0.3


def test_a_root_is_lost_but_by_luck_where_the_answer_given_instead_equals_it() -> None:
    """What is left of the chaser's sum is the token of the last position reached, the position beyond the cut."""
    model, subject, batch = stage(reading="root", n=400)
    truth = subject.task.truth(batch.tokens)
    before = _ChainAnswers.of(model(batch.tokens), batch, truth)
    assert before.right[:, 4:].all()
    for hop in (1, 2, 3, 4):
        cut = _Knockout.draw(truth, before, hop, generator(hop))
        after = cut.run(model, batch, None).argmax(-1)
        on_chain = cut.needed(before)[..., 0]
        assert torch.equal(after[on_chain], cut.edge[:, 1:].expand_as(after)[on_chain])
        assert torch.equal(after[:, 4:][~on_chain[:, 4:]], batch.targets[:, 4:][~on_chain[:, 4:]])
        lucky = truth.labels["root"][torch.arange(400), cut.query] == cut.edge[:, 1]
        found = chain_following.causal(model, subject, batch, generator(hop), hops=[hop]).select(
            edit="claimed", hop=hop
        )
        assert np.array_equal(found.select(outcome="changed").values == 0, lucky.numpy())
        assert np.array_equal(found.select(outcome="as claimed").values, found.select(outcome="changed").values)


def test_cuts_are_the_hth_edge_of_the_querys_chain_and_elsewhere_none_of_it() -> None:
    _, subject, batch = stage(reading="chain", n=200)
    truth = subject.task.truth(batch.tokens)
    ancestors, every = truth.arrays["ancestors"], torch.arange(200)
    answers = _ChainAnswers(ancestors >= 0, torch.where(ancestors >= 0, torch.arange(1, 5), 0))
    for hop in (1, 2, 4):
        cut = _Knockout.draw(truth, answers, hop, generator(hop))
        line = torch.cat([cut.query[:, None], ancestors[every, cut.query]], dim=1)
        assert cut.made.all() and torch.equal(cut.edge, line[:, hop - 1 : hop + 1])
        assert (cut.place[every, cut.query] == hop - 1).all() and len(cut.query.unique()) > 3
        other = cut.elsewhere(truth, generator(hop))
        assert other.made.float().mean() > 0.7
        start, to = other.edge[other.made].unbind(-1)
        assert torch.equal(ancestors[other.made, start, 0], to) and (start < cut.query[other.made]).all()
        assert not (line[other.made] == start[:, None]).any()


def test_answers_that_were_wrong_before_are_not_tested() -> None:
    chain = make("pointer_chain", n=16, k=4, reading="chain")
    blind = Decoder(DecoderConfig(n_layers=1, d_model=16, n_heads=2, d_vocab=16, n_ctx=16), generator(0))
    blind.unembedding.weight.data.zero_()
    found = chain_following.causal(
        hook(blind), Subject.of(blind, chain, "blind"), chain.sample(8, generator(0)), generator(1)
    )
    assert found.values.shape == (2, 2, 3, 8) and np.isnan(found.values).all()


@pytest.mark.parametrize("name", ["boxes", "arithmetic"])
def test_other_tasks_with_a_graph_are_tested_at_their_scored_positions(name: str) -> None:
    """Where every answer counts as right, a query of any depth is found, and its edge is one of the task's."""
    task: Task = make(name, **({"style": "advanced", "n_boxes": 3, "max_operations": 4} if name == "boxes" else {}))
    batch = task.sample(16, generator(0, name))
    truth: Truth = task.truth(batch.tokens)
    scored = batch.loss_mask[..., None]
    cut = _Knockout.draw(truth, _ChainAnswers(scored, torch.where(scored, 99, 0)), 1, generator(1))
    step = truth.adjacency(*batch.tokens.shape, 1)
    assert cut.made.any() and step[cut.made, cut.edge[cut.made, 0], cut.edge[cut.made, 1]].all()
    assert batch.loss_mask[cut.made, cut.query[cut.made]].all()


def test_hops_below_one_are_refused() -> None:
    model, subject, batch = stage(n=2)
    for hops in ([], [0]):
        with pytest.raises(ValueError, match="whole numbers from 1"):
            chain_following.causal(model, subject, batch, generator(0), hops=hops)
