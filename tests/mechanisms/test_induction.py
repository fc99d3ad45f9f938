"""Induction: planted in attention it is found, written by hand it is needed; a model that knows nothing has none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.mechanisms import induction
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.hooked import hook
from workbench.tasks import Task, make
from workbench.util.seeds import generator

TASKS = [make("induction", q=20), make("associative_recall", d_vocab=24, length=20, pairs=3, fill="blank")]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def seen(task: Task, pattern: Tensor, tokens: Tensor) -> Capture:
    subject = Subject(
        "planted", task, torch.zeros(1, 1), torch.zeros(1, 1), torch.nn.Identity(), (ATTENTION["standard"](),)
    )
    batch = task._batch(tokens)  # type: ignore[attr-defined]
    return Capture({"blocks.0.attn.hook_pattern": pattern.float()}, batch, subject)


@each_task
def test_a_head_that_reads_what_followed_has_it_and_one_on_the_token_itself_has_not(task: Task) -> None:
    tokens = task.sample(32, generator(0)).tokens
    truth, shape = task.truth(tokens), tokens.shape
    followed, itself = (truth.adjacency(*shape, hop=hop).float() for hop in (1, 2))
    uniform = torch.ones(shape[1], shape[1]).tril().expand(32, -1, -1)
    pattern = torch.stack([followed, itself, uniform / uniform.sum(-1, keepdim=True)], dim=1)
    found = induction.score(seen(task, pattern, tokens))
    assert found.dims == ("layer", "head", "example")
    assert (found.values[0, 0] == 1).all() and (found.values[0, 1] == 0).all()
    assert found.values[0, 2].mean() < 0.2


@torch.no_grad()
def by_hand(task: Task) -> Decoder:
    """Two layers of one head each: the first writes the token before beside each token, the second looks it up.

    The residual is three blocks: the token (V), the token before (V), the answer (V); then positions.
    """
    v, n = len(task.vocabulary), task.n_ctx
    d = 3 * v + n
    shape = {"d_model": d, "n_heads": 1, "d_head": d, "d_mlp": 0, "d_vocab": v, "n_ctx": n}
    model = Decoder(DecoderConfig(n_layers=2, norm="none", positions="learned", **shape), generator(0))
    for parameter in model.parameters():
        parameter.zero_()
    token, before, answer, place = slice(0, v), slice(v, 2 * v), slice(2 * v, 3 * v), slice(3 * v, d)
    model.token_embedding.weight[:, token] = torch.eye(v)
    model.position_embedding.weight[:, place] = torch.eye(n)
    sharp = 40 * d**0.5
    first, second = (layer.attn for layer in model.layers)
    first.q.weight[place, place] = sharp * torch.eye(n)
    first.k.weight[place, place] = torch.eye(n).roll(1, dims=0)  # the key at t answers the query at t + 1
    first.v.weight[token, token] = first.o.weight[before, token] = torch.eye(v)
    second.q.weight[token, token] = sharp * torch.eye(v)
    second.k.weight[token, before] = torch.eye(v)
    second.k.weight[token, 3 * v] = -2.0  # not the first position, which can read nothing but itself
    second.v.weight[token, token] = second.o.weight[answer, token] = torch.eye(v)
    model.unembedding.weight[:, answer] = torch.eye(v)
    return model.eval()


@each_task
def test_written_by_hand_the_claim_holds_and_each_of_its_edges_is_needed(task: Task) -> None:
    model = by_hand(task)
    subject, hooked, batch = (
        Subject.of(model, task, "by hand"),
        hook(model),
        task.sample(64, generator(1), split="test"),
    )
    right = model(batch.tokens).argmax(-1)[batch.loss_mask] == batch.targets[batch.loss_mask]
    assert right.float().mean() > 0.95
    scored = induction.score(capture(hooked, subject, batch, induction.needs(subject)))
    assert scored.mean().values[1, 0] > 0.95 > 0.5 > scored.mean().values[0, 0]
    for heads in (None, [(1, 0)]):
        tested = induction.causal(hooked, subject, batch, generator(2), heads=heads).mean()
        lost = {edit: float(tested.select(edit=edit, outcome="changed").values) for edit in induction.EDITS}
        assert lost["claimed"] > 0.95 and lost["previous token"] > 0.95 and lost["elsewhere"] < 0.05, lost


@each_task
def test_a_model_that_knows_nothing_has_neither_the_score_nor_answers_to_lose(task: Task) -> None:
    config = DecoderConfig(n_layers=2, d_model=24, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx)
    model = Decoder(config, generator(0)).eval()
    subject, hooked, batch = Subject.of(model, task, "nothing"), hook(model), task.sample(64, generator(3))
    scored = induction.score(capture(hooked, subject, batch, induction.needs(subject)))
    assert scored.mean().values.max() < 0.4
    tested = induction.causal(hooked, subject, batch, generator(4)).values
    assert np.isnan(tested[0, 0]).mean() > 0.6, "few answers are right, by luck"


def test_one_layer_has_no_edge_below_and_other_tasks_are_refused() -> None:
    task = TASKS[0]
    config = DecoderConfig(n_layers=1, d_model=24, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx)
    model = Decoder(config, generator(0)).eval()
    tested = induction.causal(hook(model), Subject.of(model, task, "one"), task.sample(99, generator(5)), generator(6))
    assert np.isnan(tested.select(edit="previous token").values).all()
    chain = make("pointer_chain", n=8, k=2)
    assert "asks for nothing that followed before" in str(induction.why_not(Subject.of(model, chain, "chain")))
