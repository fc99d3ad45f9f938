"""What is written of a subject is true: all edges are cut, sets of nodes silenced, and labels erased, in float64."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from workbench.benchmark.subjects import OWN_TASKS, SUBJECTS, Effect, Label, Planted, load, make
from workbench.circuits import Circuit, Comparison, Graph, faithfulness
from workbench.models.hooked import hook
from workbench.tasks import Batch, correct, whole
from workbench.testing import tasks as contract
from workbench.util.seeds import generator

SAME = 1e-9
each_subject = pytest.mark.parametrize("name", SUBJECTS)
each_seed = pytest.mark.parametrize("seed", [None, 1])


def planted(name: str, seed: int | None) -> tuple[Planted, Batch]:
    subject = make(name, seed, torch.float64)
    return subject, subject.task().sample(64, generator(0, "subjects"), split="test")


class Ran(NamedTuple):
    logits: Tensor
    final: Tensor


@torch.no_grad()
def run(subject: Planted, tokens: Tensor, *, cut: Collection[str] = (), silent: Collection[str] = ()) -> Ran:
    """The model written out: each reader reads the sum of what all writers before it wrote, but for edges that are cut.

    Returns the logits, and the sum of what all writers wrote.
    """
    model = subject.decoder
    places = 0 if model.position_embedding is None else model.position_embedding(torch.arange(tokens.shape[1]))
    written = {"input": model.token_embedding(tokens) + places}

    def read(reader: str) -> Tensor:
        edges = {name: f"{name}->{reader}" for name in written if name not in silent}
        return sum(
            (written[name] for name, edge in edges.items() if edge not in cut), torch.zeros_like(written["input"])
        )

    for i, layer in enumerate(model.layers):
        attn, heads = layer.attn, {}
        for h in range(model.config.n_heads):
            shared = f"g{h // attn.group}" if attn.group > 1 else f"h{h}"
            q, k, v = (
                (read(f"a{i}.{node}<{part}>") @ linear.weight.unflatten(0, (-1, attn.d_head))[int(node[1:])].T)[:, None]
                for part, linear, node in zip("qkv", (attn.q, attn.k, attn.v), (f"h{h}", shared, shared), strict=True)
            )
            z = attn.variant.read(attn.variant.pattern(q, k), v)[:, 0]
            heads[f"a{i}.h{h}"] = z @ attn.o.weight.unflatten(1, (-1, attn.d_head))[:, h].T
        written |= heads
        written[f"m{i}"] = layer.mlp(read(f"m{i}"))
    return Ran(model.unembedding(read("logits")), read("the sum"))


def right(logits: Tensor, batch: Batch) -> bool:
    """Whether every answer is; logits that rounding alone tells apart are level."""
    return bool((correct(logits.round(decimals=9), batch)[batch.loss_mask] > 0.999).all())


def moved(one: Tensor, other: Tensor, batch: Batch) -> bool:
    return bool(((one - other)[batch.loss_mask].abs() > SAME).any())


@each_subject
@each_seed
def test_every_subject_solves_its_task_and_a_rotation_changes_no_logit(name: str, seed: int | None) -> None:
    subject, batch = planted(name, seed)
    logits = subject.decoder(batch.tokens)
    assert (whole(logits, batch) == 1).all()
    torch.testing.assert_close(run(subject, batch.tokens).logits, logits, rtol=0, atol=SAME)
    single = make(name, seed)
    assert (whole(single.decoder(batch.tokens), batch) == 1).all() and single.truth == subject.truth


@each_subject
@each_seed
def test_every_edge_does_when_it_is_cut_what_is_written_of_it_and_edges_not_written_do_nothing(
    name: str, seed: int | None
) -> None:
    subject, batch = planted(name, seed)
    whole_model = run(subject, batch.tokens)
    found = {}
    for edge in Graph.of(hook(subject.decoder)).names:
        cut = run(subject, batch.tokens, cut=[edge])
        if not right(cut.logits, batch):
            found[edge] = Effect.ANSWER
        elif any(
            not right(run(subject, batch.tokens, cut=[edge], silent=rest).logits, batch)
            for rest in spares(subject, edge)
        ):
            found[edge] = Effect.BACKUP
        elif moved(cut.logits, whole_model.logits, batch):
            found[edge] = Effect.LOGITS
        elif moved(cut.final, whole_model.final, batch):
            found[edge] = Effect.IDLE
    assert found == subject.truth.edges


def spares(subject: Planted, edge: str) -> list[set[str]]:
    """The other nodes of each backup group with a node of this edge."""
    ends = set(edge.split("<")[0].split("->"))
    return [set(group) - ends for group in subject.truth.needed if len(group) > 1 and ends & set(group)]


@each_subject
@each_seed
def test_answers_are_lost_exactly_where_a_whole_needed_set_of_nodes_is_silent(name: str, seed: int | None) -> None:
    subject, batch = planted(name, seed)
    nodes = Graph.of(hook(subject.decoder)).writers[1:]
    for size in range(len(nodes) + 1):
        for silent in combinations(nodes, size):
            lost = any(set(needed) <= set(silent) for needed in subject.truth.needed)
            assert right(run(subject, batch.tokens, silent=silent).logits, batch) == (not lost), silent


@each_subject
@each_seed
def test_decoys_and_backups_alone_move_nothing_and_opposing_nodes_lower_the_right_answer(
    name: str, seed: int | None
) -> None:
    subject, batch = planted(name, seed)
    logits = run(subject, batch.tokens).logits
    for node in Graph.of(hook(subject.decoder)).writers[1:]:
        without = run(subject, batch.tokens, silent=[node]).logits
        assert node not in subject.truth.decoys or not moved(without, logits, batch)
        if batch.targets.ndim == 2:
            gain = (without - logits).gather(-1, batch.targets[..., None])[..., 0][batch.loss_mask]
            assert (node in subject.truth.opposing) == bool((gain > 0.1).all())
    if name == "either_head":
        for head in ("a0.h0", "a0.h1"):
            assert not moved(run(subject, batch.tokens, silent=[head]).logits, logits, batch)


@pytest.mark.parametrize("name", [name for name in SUBJECTS if make(name).truth.labels])
@each_seed
def test_every_label_is_held_where_it_is_written_and_answers_need_it_only_where_it_is_used(
    name: str, seed: int | None
) -> None:
    subject, batch = planted(name, seed)
    model, truth = hook(subject.decoder), subject.task().truth(batch.tokens)
    for held in subject.truth.labels:
        where = truth.labels[held.label] >= 0
        directions = torch.tensor(held.directions, dtype=torch.float64)
        with torch.no_grad():
            _, cache = model.run_with_cache(batch.tokens, names_filter=held.point)
            edit = partial(erase, directions=directions, where=where)
            erased = model.run_with_hooks(batch.tokens, fwd_hooks=[(held.point, edit)])
        best = (cache[held.point] @ directions.T)[where].argmax(-1)
        assert torch.equal(best, truth.labels[held.label][where]), held.label
        assert right(erased, batch) == (not held.used), (held.label, held.point)
        assert held.used or not moved(erased, model(batch.tokens), batch)
        assert held.local == told_by_token_and_position(held, subject)


def erase(x: Tensor, hook: object, directions: Tensor, where: Tensor) -> Tensor:
    """The residual without its part along the directions, at these positions."""
    basis = torch.linalg.qr(directions.T).Q
    return torch.where(where[..., None], x - x @ basis @ basis.T, x)


def told_by_token_and_position(held: Label, subject: Planted) -> bool:
    tokens = subject.task().draw(512, generator(1)).tokens
    label = subject.task().truth(tokens).labels[held.label]
    at = torch.arange(tokens.shape[1]).expand_as(tokens)
    pairs = {(t, p): v for t, p, v in zip(*(x.flatten().tolist() for x in (tokens, at, label)), strict=True) if v >= 0}
    told = torch.tensor([[pairs.get((t, p), -1) for p, t in enumerate(row)] for row in tokens.tolist()])
    return torch.equal(told, label)


@each_subject
def test_seeds_give_other_weights_and_the_same_seed_the_same(name: str) -> None:
    one, again, other = (make(name, seed).decoder.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@each_subject
def test_a_saved_subject_is_loaded_as_it_was(name: str, tmp_path: Path) -> None:
    subject, batch = planted(name, 3)
    subject.save(tmp_path / name)
    loaded = load(tmp_path / name)
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == [
        "README.md", "truth.json", "weights.safetensors",
    ]  # fmt: skip
    card = (tmp_path / name / "README.md").read_text()
    assert f"# {name}\n\n{subject.about} The weights" in card and "seed 3" in card and subject.about
    assert all(node in card for group in subject.truth.needed for node in group)
    assert (loaded.name, loaded.seed, loaded.made_for, loaded.truth) == (name, 3, subject.made_for, subject.truth)
    assert torch.equal(loaded.decoder(batch.tokens), subject.decoder(batch.tokens))


def test_what_cannot_be_loaded_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*truth\.json"):
        load(tmp_path)
    make("decoy").save(tmp_path / "decoy")
    make("late").save(tmp_path / "late")
    (tmp_path / "late" / "weights.safetensors").replace(tmp_path / "decoy" / "weights.safetensors")
    with pytest.raises(ValueError, match="does not hold the weights of the model"):
        load(tmp_path / "decoy")
    text = (tmp_path / "decoy" / "truth.json").read_text()
    for broken, message in (
        (text.replace('"answer"', '"anser"'), "'answer'"),
        (text.replace('"pointer_chain"', '"pointer"'), "task"),
        (text.replace('"seed"', '"sed"'), "seed"),
        (text[:-9], "JSON"),
    ):
        (tmp_path / "decoy" / "truth.json").write_text(broken)
        with pytest.raises(ValueError, match=message) as raised:
            load(tmp_path / "decoy")
        assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="unknown subject 'decoi'"):
        make("decoi")


@pytest.mark.parametrize("task", OWN_TASKS)
def test_the_tasks_of_subjects_are_tasks(task: str) -> None:
    for check in (
        contract.shapes_and_ranges, contract.the_generator_alone_decides, contract.truth_fits_the_tokens,
        contract.right_answers_score_one, contract.typed_questions_are_read_back, contract.wrong_draws_are_refused,
        contract.no_question_is_on_both_sides,
    ):  # fmt: skip
        check(OWN_TASKS[task]())


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_unembedding_reads_another_symbol_from_a_permuted_code(seed: int | None) -> None:
    subject, batch = planted("permuted_code", seed)
    model = subject.decoder
    with torch.no_grad():
        _, kept = model(batch.tokens, keep=["blocks.0.hook_resid_mid"])
        lens = model.unembedding(kept["blocks.0.hook_resid_mid"]).argmax(-1)
    assert (lens != batch.targets)[batch.loss_mask].all()


def compared(name: str) -> tuple[Planted, Comparison]:
    subject = make(name, 1, torch.float64)
    return subject, Comparison(hook(subject.decoder), subject.task().minimal_pairs(16, generator(0)))


@pytest.mark.parametrize(("name", "kept"), [("clipping_mlp", 2.0), ("inhibition_head", 2.5)])
def test_without_what_opposes_the_answer_a_circuit_keeps_more_than_the_whole_model(name: str, kept: float) -> None:
    subject, comparison = compared(name)
    written = [edge for edge, effect in subject.truth.edges.items() if effect is Effect.ANSWER]
    circuits = [Circuit.of(Graph.of(comparison.model), edges) for edges in (written, subject.truth.edges)]
    assert faithfulness(comparison, circuits).mean("example").values == pytest.approx([kept, 1])


def test_patching_one_head_of_two_of_which_either_suffices_leaves_the_answer_level_and_both_turn_it() -> None:
    _, comparison = compared("either_head")
    graph = Graph.of(comparison.model)
    heads = [Circuit.of(graph, [f"a0.h{h}->m0" for h in hs]).complement() for hs in ((0,), (1,), (0, 1))]
    assert faithfulness(comparison, heads).mean("example").values == pytest.approx([0.5, 0.5, 0])
