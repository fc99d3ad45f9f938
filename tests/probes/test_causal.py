"""Whether what is decoded is used: on models whose mechanism is written, and on a mark that nothing reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from probes import ask, causal_test, probe
from probes.subspace import Subspace
from probes.use import CHANGED, FOLLOWED
from workbench.ground_truth import compile_run
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.runs import Run, RunConfig, parse_config
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


@pytest.mark.parametrize(
    ("model", "preset", "label", "written"),
    [
        ("sorter", "minimum", "minimum", MID),
        ("turned", "minimum", "minimum", MID),
        ("sorter", "successor", "successor", "blocks.1.hook_resid_mid"),
        ("turned", "successor", "successor", "blocks.1.hook_resid_mid"),
        ("chaser", "hops", "root", MID),
    ],
)
def test_what_is_written_in_is_found_where_it_is_written_and_is_used(
    compiled: dict[str, Run], model: str, preset: str, label: str, written: str
) -> None:
    answer = ask(compiled[model], preset)
    (finding,) = [finding for finding in answer.findings if finding.label == label]
    assert finding.point == written and finding.verdict() == "used", finding.in_words()
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


def test_a_chaser_holds_no_ancestor_but_the_root(compiled: dict[str, Run]) -> None:
    """It writes the value at the root, and nothing of the way there."""
    answer = ask(compiled["chaser"], "hops", causal=False, n=256)
    assert [f.label for f in answer.findings if f.verdict() not in ("not decodable", "not told")] == ["root"]


@dataclass
class Marked:
    """A sorter with two delimiters, which differ in one direction of the residual that nothing reads."""

    config: RunConfig
    made: Decoder
    name: str = "marked"

    def task(self) -> MarkedSorting:
        return MarkedSorting(q=9, max_length=8)

    def model(self, step: int | None = None) -> Decoder:
        return self.made

    def hooked(self, step: int | None = None) -> Any:
        return hook(self.made)

    def name_at(self, step: int | None) -> str:
        return self.name


class MarkedSorting(Sorting):
    """Half of the sequences have PAD's token for their delimiter; the label `mark` says which."""

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
        return Truth(truth.edges, {**truth.labels, "mark": mark})


@pytest.fixture(scope="module")
def marked() -> Marked:
    small = sorter(9, None, 17, pad=True)
    config = DecoderConfig(**{**small.config.__dict__, "d_model": small.config.d_model + 1})
    large = Decoder(config, chance())
    state = {name: torch.zeros_like(tensor) for name, tensor in large.state_dict().items()}
    for name, tensor in small.state_dict().items():
        state[name][tuple(slice(size) for size in tensor.shape)] = tensor
    embedding = state["token_embedding.weight"]
    embedding[10] = embedding[9]  # PAD is a delimiter …
    embedding[9, -1], embedding[10, -1] = -1.0, 1.0  # … that is told apart from ⊥ in the new direction alone
    large.load_state_dict(state)
    run_config = parse_config(
        {"task": {"name": "sorting"}, "model": {"n_layers": 1, "d_model": 8, "n_heads": 1}, "steps": 0}
    )
    run_config = run_config.model_copy(update={"model": config})
    return Marked(run_config, large.eval())


def test_a_mark_in_a_direction_that_nothing_reads_is_decodable_and_not_used(marked: Marked) -> None:
    run: Any = marked
    batch = marked.task().sample(64, chance())
    right = (marked.made(batch.tokens).argmax(-1) == batch.targets) | ~batch.loss_mask
    assert right.all(), "the mark does not disturb the sorter"
    for point in (MID, "blocks.0.hook_resid_post"):
        assert probe(run, "mark", points=point, controls=()).values[0] > 0.98
        (use,) = causal_test(run, "mark", point=point).values()
        assert use.rank == 1 and use.used is False, use.verdict()
        (use,) = causal_test(run, "minimum", point=point).values()
        assert use.used is True, use.verdict()


@pytest.mark.parametrize("how", ["interchange", "steer", "erase"])
def test_every_way_to_change_it_tells(compiled: dict[str, Run], how: str) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, how=how, n=64).values()
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
        causal_test(compiled["chaser"], "root", point=MID, n=32)["labelled"].effect.values for _ in range(2)
    )
    assert np.array_equal(first, again, equal_nan=True)


def test_places_are_tested_one_by_one(compiled: dict[str, Run]) -> None:
    found = causal_test(compiled["chaser"], "root", point=MID, positions=(8, 20), n=32)
    assert list(found) == ["8", "20"] and all(use.used for use in found.values())
    assert list(causal_test(compiled["chaser"], "root", point=MID, positions=(8, 20), n=32, places=["20"])) == ["20"]
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
