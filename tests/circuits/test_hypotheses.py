"""Variables are found where they are written, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformer_lens.tools.analysis.interchange import SubspaceInterchange, fit_das, intervened_logits

from workbench.circuits.alignment import Search, alignment, beside_controls, find_subspace, random_subspace, varying
from workbench.circuits.hypotheses import (
    HYPOTHESES,
    Hypothesis,
    Interchange,
    at_first,
    exchanged_logits,
    held,
    interchange_accuracy,
    interchanges,
)
from workbench.models import Decoder
from workbench.models.compiled import Blocks, chaser, rotation, sorter
from workbench.models.hooked import hook
from workbench.runs import load_run
from workbench.tasks import Task, make
from workbench.tasks.boxes_world import OBJECTS
from workbench.training import train
from workbench.util.seeds import generator

TURNED = 3
POINT = "blocks.0.hook_resid_post"


def sorting() -> tuple[Any, Task]:
    return hook(sorter(6, TURNED, n_ctx=13, pad=True)), make("sorting", q=6, max_length=6)


def drawn(task: Task, name: str, seed: int, n: int = 200, **given: Any) -> Interchange:
    return interchanges(task, HYPOTHESES[name], n, generator(seed, "interchange"), **given)


def test_the_minimum_of_a_compiled_sorter_is_in_the_block_that_it_was_written_to() -> None:
    model, task = sorting()
    rows = drawn(task, "minimum", 0)
    assert (rows.predicted != rows.before).all() and len(rows) > 50
    token, seen, out = Blocks(7, rotation(21, TURNED), doubled=False).coordinates
    for block, accuracy in ((out, 1.0), (seen, 0.0), (token, 0.0)):
        assert interchange_accuracy(model, rows, POINT, block.T.float()).mean().values == accuracy
    assert interchange_accuracy(model, rows, POINT).mean().values == 1
    assert interchange_accuracy(model, rows, "blocks.0.hook_resid_pre").mean().values == 0


def test_the_root_of_a_compiled_chaser_is_there_once_attention_has_written_it() -> None:
    task = make("pointer_chain", n=16, k=4, reading="root")
    model = hook(chaser(16, 4, TURNED, reading="root"))
    rows = drawn(task, "root", 0)
    assert (rows.at == 15).all()
    assert interchange_accuracy(model, rows, "blocks.0.hook_resid_mid").mean().values == 1


def test_the_carry_makes_another_digit_than_the_sources_own() -> None:
    """129 + 1 and 45 + 1: with the second's carry, 0, the second digit of the first is 2, and not 4."""
    task = make("increment", max_length=3)
    rows = drawn(task, "carry", 0, split="train")
    digits = rows.base.gather(1, (task.question_length(rows.base) - 2)[:, None])[:, 0]
    carries = task.truth(rows.source).labels["carry"].gather(1, rows.source_at[:, None])[:, 0]
    assert torch.equal(rows.predicted, (digits + carries) % 10)
    own = task.truth(rows.base).labels["carry"].gather(1, rows.at[:, None])[:, 0]
    assert (own != carries).all()


def test_a_subspace_is_found_where_there_is_one_and_none_for_answers_that_follow_from_nothing() -> None:
    """Among all directions there is one for those too: it is written to where nothing varies, which layer 1 reads."""
    model, task = sorting()
    fit, test = drawn(task, "minimum", 0, 400, split="train"), drawn(task, "minimum", 1)
    accuracy = {}
    for within in (0.999, None):
        search = Search(rank=2, steps=200, rate=0.05, within=within)
        result = alignment(model, fit, test, POINT, search, generator(0, "search"))
        accuracy[within] = dict(zip(result.coords["subspace"], result.mean().values, strict=True))
    ours, everywhere = accuracy[0.999], accuracy[None]
    assert ours["all"] == 1 and ours["found"] > 0.8
    assert ours["random"] < ours["found"] - 0.3 and ours["arbitrary"] < ours["found"] - 0.4
    assert everywhere["found"] > 0.9 and everywhere["arbitrary"] > 0.9


def test_directions_that_vary_are_those_of_the_variable_and_a_subspace_is_no_larger() -> None:
    model, task = sorting()
    rows = drawn(task, "minimum", 0, 400)
    holds = held(model, rows.source, rows.source_at, POINT)
    frame = varying(holds, 0.999)
    assert frame.shape[1] < 7 and torch.allclose(frame.T @ frame, torch.eye(frame.shape[1]), atol=1e-5)
    assert varying(holds, None).shape == (21, 21)
    assert interchange_accuracy(model, rows, POINT, frame).mean().values > 0.99
    assert find_subspace(model, rows, POINT, Search(rank=20, steps=2), generator(0)).shape == frame.shape
    with pytest.raises(ValueError, match="the same in all rows: it holds no variable"):
        varying(holds[:1].expand(9, -1), 0.999)
    with pytest.raises(ValueError, match="within is a share of the variance"):
        varying(holds, 1.5)


def test_a_hypothesis_stands_beside_the_same_of_an_untrained_model_on_all_rows() -> None:
    model, task = sorting()
    fresh = hook(Decoder(sorter(6, n_ctx=13, pad=True).config, generator(0, "fresh")).eval())
    search = Search(rank=2, steps=30, rate=0.05)
    models = {"sorter": model, "untrained": fresh}
    result = beside_controls(models, task, HYPOTHESES["minimum"], POINT, search, generator(0), n=200)
    assert result.dims == ("model", "subspace", "example") and result.caption == HYPOTHESES["minimum"].claim
    mean = result.mean()
    assert mean.n is not None and (mean.n == mean.n[0, 0]).all()
    assert mean.select(model="sorter", subspace="all").values == 1
    assert (mean.select(model="untrained").values < 0.5).all()


def test_the_successor_is_written_by_layer_1_of_the_compiled_sorter() -> None:
    model, task = sorting()
    rows = drawn(task, "successor", 0, length=6)
    for point, accuracy in (("blocks.1.hook_resid_pre", 0.2), ("blocks.1.hook_resid_post", 1.0)):
        assert interchange_accuracy(model, rows, point).mean().values <= accuracy
    assert interchange_accuracy(model, rows, "blocks.1.hook_resid_post").mean().values == 1


def test_the_pointer_is_in_the_query_of_the_parent_of_a_trained_layer() -> None:
    run = load_run(Path(__file__).parents[2] / "app" / "zoo" / "chain-chacal")
    model, task = run.hooked(), run.task()
    rows = drawn(task, "pointer", 0)
    parents = task.truth(rows.base).labels["parent"][:, -1]
    assert torch.equal(rows.at, parents) and (rows.asked_at == 31).all()
    pointed = rows.base.clone().scatter(1, parents[:, None], rows.source.gather(1, rows.source_at[:, None]))
    assert torch.equal(task.truth(pointed).labels["root"][:, -1], rows.predicted)
    changed = {part: interchange_accuracy(model, rows, f"blocks.0.attn.{part}.hook_in").mean() for part in "qkv"}
    assert changed["q"].low is not None and changed["q"].low > 0.6
    assert changed["k"].values < 0.3 and changed["v"].values < 0.1


def test_the_first_item_of_an_answer_is_the_sources() -> None:
    task = make("boxes", style="advanced", n_boxes=4, n_objects=8, max_operations=4, capacity=2)
    rows = drawn(task, "item", 0, 60)
    number = torch.arange(len(rows))
    assert (rows.at >= task.question_length(rows.base)).all() and torch.equal(rows.at, rows.asked_at)
    assert torch.equal(rows.before, rows.base[number, rows.at + 1])
    assert torch.equal(rows.predicted, rows.source[number, rows.source_at + 1])
    assert {task.vocabulary.words[token] for token in rows.predicted.tolist()} <= set(OBJECTS[:8])
    with pytest.raises(ValueError, match="sorting has no items; boxes has"):
        drawn(make("sorting"), "item", 0)


def test_it_finds_what_transformerlens_finds() -> None:
    """Interchange accuracy on held-out rows within a point of its `fit_das`; and each other's edits are the same."""
    model, task = sorting()
    fit, test = drawn(task, "minimum", 0, 400, split="train"), drawn(task, "minimum", 1)

    theirs = fit_das(
        model, POINT, fit.base, fit.source, fit.predicted, at_delimiter(model, task), rank=6, base_positions=fit.at,
        source_positions=fit.source_at, epochs=30, batch_size=64, lr=0.05, micro_batch_size=len(fit.base),
    )  # fmt: skip
    basis = theirs.basis
    logits = intervened_logits(
        model, POINT, SubspaceInterchange(basis), test.base, held(model, test.source, test.source_at, POINT),
        at_delimiter(model, task), positions=test.at, batch_size=len(test),
    )  # fmt: skip
    with torch.no_grad():
        assert torch.allclose(logits, exchanged_logits(model, test, POINT, basis), atol=1e-4)
    own = find_subspace(model, fit, POINT, Search(rank=6, steps=200, rate=0.05), generator(0, "search"))
    accuracies = [float(interchange_accuracy(model, test, POINT, each).mean().values) for each in (basis, own)]
    assert accuracies[1] >= accuracies[0] - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["standard", "tempered", "chacal"])
def test_in_trained_models_it_is_as_accurate_as_transformerlens(variant: str, tmp_path: Path) -> None:
    """Both searches of the minimum, in all directions, with the same steps: means of two, on rows not searched on."""
    small = {"q": 8, "max_length": 8, "test_max_length": 8}
    run = train(
        "sort-standard", out=tmp_path / variant, progress=False, steps=600, task=small, model={"attention": variant}
    )
    model, task, point = run.hooked(), run.task(), "blocks.1.hook_resid_mid"
    assert model.cfg.n_layers == 2
    fit, test = drawn(task, "minimum", 0, 2000, split="train"), drawn(task, "minimum", 1, 2000)
    search = Search(rank=16, steps=20 * len(fit) // 64, rate=0.005, within=None)

    def accuracy(basis: torch.Tensor) -> float:
        return float(interchange_accuracy(model, test, point, basis).mean().values)

    theirs, ours, chance = [], [], []
    for seed in range(2):
        found = fit_das(
            model, point, fit.base, fit.source, fit.predicted, at_delimiter(model, task), rank=search.rank, lr=0.005,
            base_positions=fit.at, source_positions=fit.source_at, epochs=20, batch_size=64, seed=seed,
            micro_batch_size=len(fit.base),
        )  # fmt: skip
        theirs.append(accuracy(found.basis))
        ours.append(accuracy(find_subspace(model, fit, point, search, generator(seed, "search"))))
        chance.append(accuracy(random_subspace(model.cfg.d_model, search.rank, generator(seed, "random")).float()))
    assert abs(sum(ours) - sum(theirs)) / 2 <= 0.01
    assert min(ours) > 0.95 and max(chance) < 0.6


def at_delimiter(model: Any, task: Task) -> Any:
    """Logits at ⊥, as TransformerLens wants them."""
    return lambda tokens: model(tokens)[torch.arange(len(tokens)), task.question_length(tokens)]


def test_what_there_is_not_is_refused_in_words() -> None:
    model, task = sorting()
    rows = drawn(task, "minimum", 0)
    with pytest.raises(ValueError, match="a rank of 1 to 21, not 22"):
        find_subspace(model, rows, POINT, Search(rank=22), generator(0))
    with pytest.raises(ValueError, match=r"no hook point 'blocks\.9\.hook_resid_post'"):
        interchange_accuracy(model, rows, "blocks.9.hook_resid_post")
    with pytest.raises(ValueError, match="a rank of 1 to 21, not 22"):
        random_subspace(21, 22, generator(0))
    with pytest.raises(ValueError, match="sorting has no label 'root'; there is: minimum"):
        drawn(task, "root", 0)
    nothing = Hypothesis("nothing", at_first("minimum"), lambda task, base, source: torch.full((len(base),), -1))
    with pytest.raises(ValueError, match="in none of 5 draws does another answer follow from: nothing"):
        interchanges(task, nothing, 5, generator(0))
    with pytest.raises(ValueError, match="asks for sets here"):
        interchanges(make("pointer_chain", n=8, k=2), HYPOTHESES["root"], 5, generator(0))
