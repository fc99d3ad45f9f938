"""A tie is worth 1/k: a model that says nothing is right as often as chance, on every task and in every claim."""

from __future__ import annotations

from itertools import permutations
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.figures.token_page import answer_rows
from workbench.instruments.answers import accuracy, overall
from workbench.instruments.attention import head_roles
from workbench.instruments.lens import lens_agreement, lens_difference, logit_lens
from workbench.instruments.residual import projection
from workbench.instruments.residual.trajectory import ranks
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.probes.fitting import Split, decode
from workbench.tasks import TASKS, Batch, Task, correct, make, predicted, whole
from workbench.util.seeds import generator
from workbench.util.ties import agreement, clear, exactly, hit, named, on_top

SMALL: dict[str, dict[str, Any]] = {
    "pointer_chain": {"n": 12, "k": 3},
    "property_chain": {"n": 9, "k": 3},
    "boxes": {"n_boxes": 3, "min_operations": 2, "max_operations": 4},
    "box_moves": {"n_boxes": 3, "n_filled": 2, "max_moves": 5},
    "sorting": {"q": 9, "max_length": 6},
    "increment": {"max_length": 6, "test_max_length": 9},
    "multiplication": {"digits": 3},
    "arithmetic": {"operators": 3},
    "lis": {"length": 8, "min_length": 5, "values": 40},
    "text": {"path": __file__, "block": 40},
    "modular_addition": {"p": 11},
    "associative_recall": {"d_vocab": 16, "length": 16, "pairs": 2},
    "induction": {"q": 12, "max_length": 8},
    "state_tracking": {"states_of": "S3", "length": 6},
    "dyck": {"length": 12},
}
each_task = pytest.mark.parametrize("name", TASKS)


def small(name: str, **more: Any) -> Task:
    return make(name, **SMALL[name], **more)


def zeroed(task: Task, n_layers: int = 2) -> Decoder:
    """A decoder whose weights are all 0: its residual is 0, its attention uniform, its logits are level."""
    config = DecoderConfig(n_layers=n_layers, d_model=8, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx)
    model = Decoder(config, generator(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model.eval()


def seen(model: Decoder, task: Task, points: list[str], n: int = 64) -> Capture:
    return capture(hook(model), Subject.of(model, task, "it"), task.sample(n, generator(1)), points)


few = st.lists(st.integers(0, 2), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(few, st.integers(0, 5), st.integers(0, 31))
def test_ties_count_what_random_orders_of_them_give_on_average(values: list[int], m: int, members: int) -> None:
    """Every order of the classes breaks ties; the mean over all of them is what is returned."""
    n, m = len(values), min(m, len(values))
    wanted = [bool(members >> i & 1) for i in range(n)]
    tops = [sorted(range(n), key=lambda i: (-values[i], order[i])) for order in permutations(range(n))]
    scores = torch.tensor(values, dtype=torch.float32)

    def share(holds: Any) -> float:
        return sum(map(holds, tops)) / len(tops)

    for i in range(n):
        assert float(hit(scores, torch.tensor(i))) == pytest.approx(share(lambda top, i=i: top[0] == i))
        assert float(on_top(scores, m)[i]) == pytest.approx(share(lambda top, i=i: i in top[:m]))
    size = sum(wanted)
    expected = share(lambda top: all(wanted[i] for i in top[:size]))
    assert float(exactly(scores, torch.tensor(wanted))) == pytest.approx(expected, abs=1e-6)


def test_no_class_is_hit_that_there_is_not_and_none_by_nan() -> None:
    scores = torch.zeros(3, 4)
    assert hit(scores, torch.tensor([-1, 4, 2])).tolist() == [0, 0, 0.25]
    assert hit(torch.full((4,), torch.nan), torch.tensor(0)) == 0 == on_top(torch.full((4,), torch.nan), 2).sum()
    assert clear(torch.tensor([[1.0, 1, 0], [0, 2, 1]])).tolist() == [-1, 1]
    assert float(agreement(torch.zeros(5), torch.zeros(5))) == pytest.approx(1 / 5)
    assert named(torch.tensor([[1.0, 1, 0], [0, 2, 1]]), lambda ids: [f"w{i}" for i in ids]) == ["tie of 2", "w1"]


def by_argmax(logits: Tensor, batch: Batch) -> Tensor:
    """What `correct` was, which gave ties to the lowest class."""
    if batch.targets.ndim == 2:
        return ((logits.argmax(-1) == batch.targets) & batch.loss_mask).float()
    rank = logits.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    found = ((rank < batch.targets.sum(-1, keepdim=True)) & batch.targets).sum(-1)
    return torch.where(batch.loss_mask, found / batch.targets.sum(-1).clamp(min=1), 0.0)


@each_task
def test_without_ties_nothing_is_different(name: str) -> None:
    task = small(name)
    batch = task.sample(32, generator(2))
    noise = torch.randn(*batch.tokens.shape, len(task.vocabulary), generator=generator(3))
    right = batch.targets if batch.targets.ndim == 3 else torch.nn.functional.one_hot(batch.targets, noise.shape[-1])
    for logits in (noise, noise + 3 * right):
        expected = by_argmax(logits, batch)
        assert torch.equal(correct(logits, batch), expected)
        assert torch.equal(whole(logits, batch), ((expected == 1) | ~batch.loss_mask).all(-1).float())
        assert (
            torch.equal(predicted(logits, batch.targets).sum(-1) == 1, torch.ones_like(batch.loss_mask))
            or right is batch.targets
        )


@each_task
def test_constant_logits_are_right_exactly_as_often_as_chance(name: str) -> None:
    """One of as many as there are classes at each position, and for a set as many of them as it has members."""
    task = small(name)
    batch = task.sample(32, generator(2))
    n_classes = len(task.vocabulary)
    logits = torch.full((*batch.tokens.shape, n_classes), 0.3)
    asked = batch.loss_mask.sum(-1)
    size = batch.targets.sum(-1) if batch.targets.ndim == 3 else torch.ones_like(batch.tokens)
    chance = torch.where(batch.loss_mask, size / n_classes, 0.0)
    assert correct(logits, batch) == pytest.approx(chance)
    together = [
        np.prod([1 / comb(n_classes, int(m)) for m in own[mask]])
        for own, mask in zip(size, batch.loss_mask, strict=True)
    ]
    assert whole(logits, batch).numpy() == pytest.approx(np.array(together), rel=1e-4, abs=1e-37)
    measured = Capture({LOGITS: logits}, batch, Subject.of(zeroed(task), task, "constant"))
    assert overall.measure(measured).values[0] == pytest.approx((chance.sum(-1) / asked).numpy())
    groups = accuracy.measure(measured).values
    if task.unit == "sequence":
        assert np.nanmax(groups, axis=0) == pytest.approx(np.array(together), rel=1e-4, abs=1e-37)
    elif batch.targets.ndim == 2:
        assert groups[~np.isnan(groups)] == pytest.approx(1 / n_classes)
    elif name == "property_chain":  # sets of one size
        assert groups[~np.isnan(groups)] == pytest.approx(task.model_dump()["properties"] / n_classes)
    else:  # by the hop of each member of a set
        by_hop = (size[:, :, None] * (task.truth(batch.tokens).arrays["ancestors"] >= 0)).sum(1) / n_classes
        count = (task.truth(batch.tokens).arrays["ancestors"] >= 0).sum(1)
        assert groups.reshape(len(task.groups), -1) == pytest.approx((by_hop / count).T.numpy())


@each_task
def test_a_decoder_of_zeros_scores_chance_where_it_is_evaluated(name: str) -> None:
    from workbench.runs import parse_config
    from workbench.training.evaluation import Evaluation

    task = small(name)
    model = zeroed(task)
    shape = {"n_layers": 2, "d_model": 8, "n_heads": 2}
    config = parse_config({"task": {"name": name, **SMALL[name]}, "model": shape, "eval_size": 16, "steps": 1})
    evaluation = Evaluation(task, config)
    batch = evaluation.held_out["main"]
    found = evaluation(model, torch.device("cpu"))["accuracy"]
    logits = torch.zeros(*batch.tokens.shape, len(task.vocabulary))
    if task.unit == "sequence":
        assert found == pytest.approx(float(whole(logits, batch).mean())) and found <= 1 / len(task.vocabulary) + 1e-6
    else:
        assert found == pytest.approx(float(correct(logits, batch)[batch.loss_mask].mean()))


def test_uniform_attention_recalls_gold_edges_as_often_as_keys_drawn_at_random() -> None:
    task = small("pointer_chain")
    model = zeroed(task)
    subject = Subject.of(model, task, "zeros")
    zeros = seen(model, task, head_roles.needs(subject))
    found = head_roles.measure(zeros).select(role="gold recall").values
    expected = np.mean([1 / (query + 1) for query in range(3, 12)])
    assert found == pytest.approx(expected)


def test_lenses_that_decode_level_logits_agree_by_chance() -> None:
    task = small("sorting")
    zeros = seen(zeroed(task), task, logit_lens.needs(Subject.of(zeroed(task), task, "zeros")))
    V = len(task.vocabulary)
    assert lens_agreement.measure(zeros).values == pytest.approx(1 / V)
    assert lens_difference.measure(zeros, zeros, how="same_top").values == pytest.approx(1 / V)


def test_a_token_that_ties_with_all_has_the_middle_rank() -> None:
    task = small("sorting")
    zeros = seen(zeroed(task), task, projection.from_embedding(Subject.of(zeroed(task), task, "zeros")))
    assert ranks(zeros, 0, 1, tokens=[0, 3]).values == pytest.approx((len(task.vocabulary) + 1) / 2)


@pytest.mark.parametrize("kind", ["logistic", "ridge", "nearest_mean"])
def test_a_probe_of_features_that_are_the_same_for_all_is_right_by_chance(kind: str) -> None:
    """Two classes as often as each other among those fitted on: their scores are level."""
    example = torch.arange(40)
    y = (example % 2)[None]
    split = Split.of(example, example >= 20)
    found = decode(torch.ones(1, 1, 40, 4), [y], split, kind=kind, generator=generator(0))
    assert found.numpy() == pytest.approx(0.5)


def test_what_ties_is_shown_as_a_tie() -> None:
    task = small("sorting")
    zeros = seen(zeroed(task), task, [LOGITS], n=1)
    says = answer_rows(zeros)[0]
    scored = zeros.batch.loss_mask[0]
    assert {word for word, asked in zip(says.words, scored, strict=True) if asked} == {f"tie of {len(task.vocabulary)}"}
    assert not any(says.right)
