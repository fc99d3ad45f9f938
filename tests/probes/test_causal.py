"""Whether what is decoded is used: on models whose mechanism is written, and on a mark that nothing reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench
from probes import Answer, Standing, Told, Use, Worth, ask, causal_test, judge, probe, verdict
from probes.conditions import BASELINES
from probes.subspace import Subspace
from probes.trial import Edited, as_large
from probes.use import CHANGED, EDITS, FOLLOWED, measured
from workbench.ground_truth import compile_run
from workbench.instruments import Measurement
from workbench.models import Decoder, DecoderConfig, nulls
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.runs import Run, RunConfig, parse_config, save_run
from workbench.seeds import generator
from workbench.tasks import Batch, Truth
from workbench.tasks.sorting import Sorting

MID = "blocks.0.hook_resid_mid"


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    root = tmp_path_factory.mktemp("compiled")
    return {
        "sorter": compile_run("sorter", root / "sorter", {"q": 9}),
        "turned": compile_run("sorter", root / "turned", {"q": 9, "rotate_seed": 0}),
        "chaser": compile_run("chaser", root / "chaser", {"n": 32, "k": 4}),
    }


@pytest.fixture(scope="module")
def answers(compiled: dict[str, Run]) -> dict[tuple[str, str], Answer]:
    """Every question of a compiled model whose answer is written in it."""
    quick: dict[str, Any] = {"controls": BASELINES}
    asked = [(model, preset) for model in ("sorter", "turned") for preset in ("minimum", "successor")]
    found = {
        (model, preset): ask(compiled[model], preset, n=1024 if preset == "successor" else 512, **quick)
        for model, preset in asked
    }
    return {**found, ("chaser", "hops"): ask(compiled["chaser"], "hops", n=160, **quick)}


WRITTEN = [
    ("sorter", "minimum", "minimum", MID),
    ("turned", "minimum", "minimum", MID),
    ("sorter", "successor", "successor", "blocks.1.hook_resid_mid"),
    ("turned", "successor", "successor", "blocks.1.hook_resid_mid"),
    ("chaser", "hops", "root", MID),
]


@pytest.mark.parametrize(("model", "preset", "label", "written"), WRITTEN)
def test_what_is_written_in_is_found_where_it_is_written_and_is_used(
    answers: dict[tuple[str, str], Answer], model: str, preset: str, label: str, written: str
) -> None:
    answer = answers[model, preset]
    (finding,) = [finding for finding in answer.findings if finding.label == label]
    assert finding.point == written and finding.standing is Standing.USED, finding.in_words()
    found = answer.measured.select(label=label)
    points = list(found.coords["point"])
    for point in points:
        own = found.select(point=point, condition="trained")
        token = found.select(point=point, condition="current token")
        if points.index(point) < points.index(written):
            assert own.low is not None and token.high is not None
            assert own.low <= token.high and own.values <= token.values + 0.02, point
        else:
            assert own.values >= 0.99, point
    assert list(finding.uses) == points[points.index(written) :], "every point at which it can be read is tested"
    assert all(use.compared == len(finding.uses) for use in finding.uses.values())


@pytest.mark.parametrize("preset", ["minimum", "successor"])
def test_a_turned_basis_changes_no_verdict(answers: dict[tuple[str, str], Answer], preset: str) -> None:
    plain, turned = answers["sorter", preset].findings, answers["turned", preset].findings
    for one, other in zip(plain, turned, strict=True):
        assert (one.label, one.point, one.standing) == (other.label, other.point, other.standing)
        assert one.judged.worth is other.judged.worth


def test_every_edit_beside_is_as_large_as_the_labels_own(answers: dict[tuple[str, str], Answer]) -> None:
    (finding,) = [finding for finding in answers["sorter", "successor"].findings if finding.label == "successor"]
    assert finding.use is not None
    sizes = finding.use.sizes.select(size="as edited")
    own, same, other = sizes.values
    assert other == pytest.approx(own, rel=1e-4) and same <= own * 1.0001
    drawn = finding.use.sizes.select(size="before scaling").values
    assert drawn[0] == own and drawn[1] < same and "mean size of the edit" in finding.use.verdict()


def test_as_large_as_is_row_by_row_and_nothing_stays_nothing() -> None:
    change = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-6, 0.0]])
    wanted = torch.tensor([[0.0, 10.0], [1.0, 0.0], [1.0, 0.0]])
    assert as_large(change, wanted).tolist() == [[6.0, 8.0], [0.0, 0.0], [pytest.approx(1.0), 0.0]]
    assert as_large(change, wanted, 100.0)[2].tolist() == [pytest.approx(1e-4), 0.0]


@dataclass
class Planted:
    """A model made for a test, as a run."""

    config: RunConfig
    made: Decoder
    asks: Sorting
    name: str = "planted"

    @classmethod
    def of(cls, made: Decoder, asks: Sorting) -> Planted:
        small = {"task": {"name": "sorting"}, "model": {"n_layers": 1, "d_model": 8, "n_heads": 1}, "steps": 0}
        return cls(parse_config(small).model_copy(update={"model": made.config}), made.eval(), asks)

    def task(self) -> Sorting:
        return self.asks

    def model(self, step: int | None = None) -> Decoder:
        return self.made

    def hooked(self, step: int | None = None) -> Any:
        return hook(self.made)

    def name_at(self, step: int | None) -> str:
        return self.name


class MarkedSorting(Sorting):
    """Half of the sequences have PAD's token for their delimiter; the label `mark` says which.

    The label `odd` is the exclusive or of that and of whether the minimum is odd.
    """

    def plain(self, tokens: Tensor) -> Tensor:
        inside = tokens.roll(-1, 1) <= self.q
        inside[:, -1] = False
        return torch.where((tokens == self.pad) & inside, self.q, tokens)

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        batch = super().draw(n, generator, head=head, **condition)
        marked = torch.rand(n, 1, generator=generator) < 0.5
        tokens = torch.where((batch.tokens == self.q) & marked, self.pad, batch.tokens)
        return Batch(tokens, batch.targets, batch.loss_mask)

    def asked(self, tokens: Tensor) -> Tensor:
        return super().asked(self.plain(tokens))

    def truth(self, tokens: Tensor) -> Truth:
        plain = self.plain(tokens)
        truth = super().truth(plain)
        mark = torch.where(plain == self.q, (tokens != plain).long(), -1)
        minimum = truth.labels["minimum"]
        odd = torch.where((mark >= 0) & (minimum >= 0), mark ^ (minimum % 2), -1)
        return Truth(truth.edges, {**truth.labels, "mark": mark, "odd": odd})


def widened(small: Decoder, extra: int, first: int = 0) -> Decoder:
    """A decoder with so many more coordinates and, before its own, so many more layers, which hold and do nothing."""
    attention = (small.config.attention[0],) * first + tuple(small.config.attention)
    shape = {"d_model": small.config.d_model + extra, "n_layers": len(attention), "attention": attention}
    large = Decoder(DecoderConfig(**{**small.config.__dict__, **shape}), chance())
    state = {name: torch.zeros_like(tensor) for name, tensor in large.state_dict().items()}
    for name, tensor in small.state_dict().items():
        head, _, rest = name.partition(".")
        if head == "layers":
            layer, _, rest = rest.partition(".")
            name = f"layers.{int(layer) + first}.{rest}"
        state[name][tuple(slice(size) for size in tensor.shape)] = tensor
    large.load_state_dict(state)
    return large


@pytest.fixture(scope="module")
def marked() -> Planted:
    """A sorter with two delimiters, which differ in one direction of the residual that nothing reads."""
    large = widened(sorter(9, None, 17, pad=True), 1)
    with torch.no_grad():
        embedding = large.token_embedding.weight
        embedding[10] = embedding[9]  # PAD is a delimiter …
        embedding[9, -1], embedding[10, -1] = -1.0, 1.0  # … that is told apart from ⊥ in the new direction alone
    return Planted.of(large, MarkedSorting(q=9, max_length=8))


def test_a_mark_in_a_direction_that_nothing_reads_is_decodable_and_not_used(marked: Planted) -> None:
    run: Any = marked
    batch = marked.task().sample(64, chance())
    right = (marked.made(batch.tokens).argmax(-1) == batch.targets) | ~batch.loss_mask
    assert right.all(), "the mark does not disturb the sorter"
    for point in (MID, "blocks.0.hook_resid_post"):
        assert probe(run, "mark", points=point, controls=()).values[0] > 0.98
        (use,) = causal_test(
            run, "mark", point=point, n=640
        ).values()  # of 175, none does not yet tell less than a point
        assert use.rank == 1 and use.used is False, use.verdict()
        (use,) = causal_test(run, "minimum", point=point).values()
        assert use.used is True, use.verdict()


def test_an_exclusive_or_of_two_things_that_are_there_is_neither_decodable_nor_used(marked: Planted) -> None:
    """Mark and minimum are each in a direction; what they are together only a probe that is not linear can say."""
    run: Any = marked
    assert judge(probe(run, "odd", points=MID)).worth in (Worth.NO_BETTER, Worth.NOT_TOLD)
    assert judge(probe(run, "odd", points=MID, kind="mlp")).worth is Worth.DECODABLE
    (use,) = causal_test(run, "odd", point=MID).values()
    assert use.told in (Told.UNTESTED, Told.UNUSED, Told.LIKE_CONTROLS), use.verdict()


def test_a_read_out_in_a_late_layer_is_found_behind_a_copy_that_nothing_reads() -> None:
    """Layer 0 writes the mean of the input where nothing reads it, which tells the minimum; the sorter comes after."""
    small = sorter(9, None, 17, pad=True)
    V = small.config.d_head
    assert V is not None
    late = widened(small, V, first=1)
    attention: Any = late.layers[0].attn
    with torch.no_grad():
        attention.v.weight[:V, :V] = torch.eye(V)  # of every position alike, the token …
        attention.o.weight[-V:, :V] = torch.eye(V)  # … into coordinates of its own
    run: Any = Planted.of(late, Sorting(q=9, max_length=8))
    batch = run.task().sample(64, chance())
    assert ((late(batch.tokens).argmax(-1) == batch.targets) | ~batch.loss_mask).all(), "it sorts"
    (finding,) = ask(run, "minimum", controls=BASELINES).findings
    points = list(finding.uses)
    assert points[0] == MID and finding.uses[MID].told is not Told.USED, finding.in_words()
    assert finding.standing is Standing.USED and finding.point == "blocks.1.hook_resid_mid", finding.in_words()


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A sorter that was trained a little, each weight matrix in random order: it knows nothing, with large weights."""
    root = tmp_path_factory.mktemp("shuffled")
    task = {"q": 9, "max_length": 8, "test_max_length": 8}
    model = {"d_model": 32, "n_heads": 2}
    run = workbench.train("sort-standard", out=root / "run", progress=False, steps=300, task=task, model=model)
    return save_run(root / "null", nulls.shuffled(run.model(), generator(0, "x")), run.task())


def test_a_shuffled_sorter_uses_nothing(shuffled: Run) -> None:
    """Its successor was called used where the edits beside were smaller than its own."""
    found = ask(shuffled, "successor", controls=BASELINES).findings
    assert [finding.standing for finding in found if finding.label == "successor"] == [Standing.DECODABLE]


def test_what_only_token_and_position_tell_is_no_headline(tmp_path: Path) -> None:
    """At the embedding of a model for increasing subsequences, the programme's entry is guessed from the number."""
    task, model = {"length": 8, "values": 32}, {"d_model": 32, "n_heads": 2, "n_layers": 1}
    run = workbench.train("lis-vanilla", out=tmp_path / "lis", progress=False, steps=50, task=task, model=model)
    (finding,) = ask(run, "lis-table", controls=BASELINES).findings
    embedding = "blocks.0.hook_resid_pre"
    assert finding.point != embedding and embedding not in finding.uses, finding.in_words()
    found = probe(run, "dp", points=embedding)
    assert judge(found).worth is Worth.TOKEN_AND_POSITION and "before attention nothing else is there" in verdict(found)
    (use,) = causal_test(run, "dp", point=embedding).values()
    assert use.used is not True, use.verdict()


def test_few_sequences_give_no_verdict(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=4, judged={}).values()
    assert use.told is Told.TOO_FEW and use.used is None and " of at least 5)" in use.verdict()
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=8, judged={}).values()
    assert use.used is True


def test_used_of_what_cannot_be_read_there_says_so(compiled: dict[str, Run]) -> None:
    """The root cannot be read off a chaser's embedding; what is changed there is the tokens, which it needs."""
    point = "blocks.0.hook_resid_pre"
    (use,) = causal_test(compiled["chaser"], "position", point=point, n=64, judged={}).values()
    assert "can be read there" not in use.verdict(), "nothing is known of it"
    (use,) = causal_test(compiled["chaser"], "root", point=point, n=64).values()
    assert use.untested or "a probe does not say that it can be read there" in use.verdict()
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=64).values()
    assert use.used and use.verdict().endswith("; decodable there")


def test_nothing_is_called_used_that_no_model_without_knowledge_was_held_against(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=64, null_draws=0, judged={}).values()
    assert use.told is Told.NO_NULLS and use.used is None
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=64, judged={}).values()
    assert use.told is Told.USED and use.nulls is not None and use.nulls.values.shape == (5, 2, 2, 3)
    as_much = replace(use, nulls=replace(use.nulls, values=np.ones_like(use.nulls.values)))
    assert as_much.told is Told.LIKE_NULLS and "models that know nothing" in as_much.verdict()


def of_excess(excess: float, spread: float, compared: int = 1) -> Use:
    """A causal test with this excess over either edit beside it, of 100 sequences, and nulls that do nothing."""
    half = np.linspace(-1, 1, 100)
    values = np.zeros((3, 3, 100))
    values[0] = excess + spread * half
    settings = {"label": "root", "model": "none", "point": MID, "place": "labelled", "how": "interchange"}
    use = measured(Edited(values, np.ones((3, 2, 100))), EDITS["interchange"], 1, 1, settings)
    zeros = np.zeros((5, 2, *use.excess.values.shape))
    coords = {"null": range(5), "kind": ["a", "b"], **use.excess.coords}
    nulls = Measurement("nulls", zeros, ("null", "kind", *use.excess.dims), coords, "difference of shares")
    return replace(use, nulls=nulls, compared=compared)


def test_the_low_end_of_the_excess_has_to_be_a_point_corrected_for_all_that_was_looked_at() -> None:
    """Of 100 sequences, spread evenly by ±0.05, the interval is ±0.006 wide, and ±0.007 for three outcomes."""
    assert of_excess(0.03, 0.05).told is Told.USED
    assert of_excess(0.015, 0.05).told is not Told.USED, "its mean is above a point, its interval is not"
    assert of_excess(0.018, 0.05).told is Told.USED
    assert of_excess(0.018, 0.05, compared=9).told is not Told.USED, "the best of nine points is easily so good"


@pytest.mark.parametrize("how", ["interchange", "steer", "erase"])
def test_every_way_to_change_it_tells(compiled: dict[str, Run], how: str) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, how=how, n=64, judged={}).values()
    assert use.used is True, use.verdict()
    assert list(use.excess.coords["edit"]) == list(use.effect.coords["edit"])[1:]
    if how == "interchange":
        assert use.effect.select(edit="another label", outcome=FOLLOWED).values == 1.0
        assert use.effect.select(edit="same label", outcome=CHANGED).values < 0.1, "of what is rounded, made larger"


def test_what_no_direction_holds_is_not_tested(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["sorter"], "length", point="blocks.0.hook_resid_pre", positions="delimiter").values()
    assert use.rank == 0 and use.used is None and "no direction" in use.verdict()
    places = ["output 19", "output 1"]
    found = causal_test(compiled["sorter"], "identity", point=MID, positions="each output", n=4, places=places)
    assert list(found) == places and found["output 19"].used is None


def test_harm_along_other_directions_does_not_say_that_a_label_is_unused(compiled: dict[str, Run]) -> None:
    """A chaser needs its positions; that it needs the tokens as well, which the other directions hold, is no matter."""
    (use,) = causal_test(compiled["chaser"], "position", point="blocks.0.hook_resid_pre", n=64).values()
    assert use.effect.select(edit="another label", outcome=CHANGED).values > 0.5
    assert use.used is not False, use.verdict()


def test_the_same_seed_gives_the_same_test(compiled: dict[str, Run]) -> None:
    first, again = (
        causal_test(compiled["chaser"], "root", point=MID, n=32, judged={}, null_draws=2)["labelled"].effect.values
        for _ in range(2)
    )
    assert np.array_equal(first, again, equal_nan=True)


def test_places_are_tested_one_by_one(compiled: dict[str, Run]) -> None:
    found = causal_test(compiled["chaser"], "root", point=MID, positions=(8, 20), n=32, judged={})
    assert list(found) == ["8", "20"] and all(use.used for use in found.values())
    one = causal_test(compiled["chaser"], "root", point=MID, positions=(8, 20), n=32, places=["20"], judged={})
    assert list(one) == ["20"]
    with pytest.raises(ValueError, match="unknown causal test 'cut'"):
        causal_test(compiled["chaser"], "root", point=MID, how="cut")


def rows(n: int = 4000, d: int = 10) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with a class along two directions and correlated noise; the directions."""
    y = torch.randint(3, (n,), generator=chance())
    directions = torch.linalg.qr(torch.randn(d, 2, generator=chance(), dtype=torch.float64)).Q
    centres = torch.tensor([[2.0, 0], [-1, 1.7], [-1, -1.7]], dtype=torch.float64) @ directions.mT
    mix = torch.randn(d, d, generator=chance(), dtype=torch.float64)
    return centres[y] + torch.randn(n, d, generator=chance(), dtype=torch.float64) @ mix, y, directions


def test_erasure_leaves_no_linear_probe_anything() -> None:
    """All class means coincide (Belrose et al. 2023, Theorem 3.1), and no more than the label's directions is gone."""
    x, y, _ = rows()
    space = Subspace.of(x, y, chance())
    assert space.rank == 2
    erased = space.moved(x, space.mean.expand_as(x))
    means = torch.stack([erased[y == k].mean(0) for k in range(3)])
    assert means == pytest.approx(x.mean(0).expand(3, -1), abs=1e-6)
    change = torch.linalg.matrix_rank((erased - x) - (erased - x).mean(0))
    assert change == 2 and space.projector @ space.projector == pytest.approx(space.projector, abs=1e-9)


def test_an_interchange_takes_what_is_read_and_leaves_the_rest() -> None:
    x, y, _ = rows()
    space = Subspace.of(x, y, chance())
    other = x[torch.randperm(len(x), generator=chance())]
    moved = space.moved(x, other)
    assert moved @ space.projector == pytest.approx(other @ space.projector, abs=1e-9)
    rest = torch.eye(10, dtype=torch.float64) - space.projector
    assert moved @ rest == pytest.approx(x @ rest, abs=1e-9)
    assert space.moved(x, x) == pytest.approx(x)
    beside = space.moved(x, other, rest=True)
    assert beside @ space.projector == pytest.approx(x @ space.projector, abs=1e-9), "other directions hold none of it"


def test_a_label_that_is_not_there_has_no_directions() -> None:
    """Of twenty that have nothing to do with the rows, some have one by chance; of a sequence's own, none has three."""
    x, _, _ = rows(1000)
    ranks = []
    for seed in range(20):
        own = torch.Generator().manual_seed(seed)
        ranks.append(Subspace.of(x, torch.randint(2, (len(x),), generator=own), own).rank)
    assert sum(ranks) <= 4
    group = torch.arange(40).repeat_interleave(25)
    shared = torch.randn(40, 10, generator=chance(), dtype=torch.float64)[group] + 0.1 * x
    for seed in range(5):
        own = torch.Generator().manual_seed(seed)
        label = torch.randint(4, (40,), generator=own)[group]
        assert Subspace.of(shared, label, own, group=group).rank <= 1
        assert Subspace.of(shared, label, own).rank == 3, "rows of a sequence are not independent"


def test_the_best_directions_may_be_asked_for_alone() -> None:
    x, y, _ = rows()
    assert Subspace.of(x, y, chance(), rank=1).rank == 1
