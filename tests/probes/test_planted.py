"""Traps for probes: what is there and not used, or read late, or told by the token; models that know nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench
from tests.probes.exclusive_or import DRAWS, decodable
from workbench.judgement.decodable import BASELINES
from workbench.judgement.words import probes as words
from workbench.measurement.controls import untrained as nulls
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import sorter
from workbench.models.hooked import hook
from workbench.probes import Conclusion, Status, Worth, ask, causal_test, judge, probe, verdict
from workbench.runs import Run, RunConfig, parse_config, save_run
from workbench.tasks import Batch, Truth
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

MID = "blocks.0.hook_resid_mid"
DOCS = Path(__file__).parents[2] / "docs"


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(0)


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

    def question_length(self, tokens: Tensor) -> Tensor:
        return super().question_length(self.plain(tokens))

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
        (use,) = causal_test(run, "mark", point=point, n=640).values()  # none of 350 may still be a point
        assert use.rank == 1 and use.judged.used is False, use.verdict()
        (use,) = causal_test(run, "minimum", point=point).values()
        assert use.judged.used is True, use.verdict()


def test_an_exclusive_or_of_two_things_that_are_there_is_neither_decodable_nor_used(marked: Planted) -> None:
    """Mark and minimum are each in a direction; what they are together only a probe that is not linear can say."""
    run: Any = marked
    assert judge(probe(run, "odd", points=MID)).worth in (Worth.NO_BETTER, Worth.UNDECIDED)
    assert judge(probe(run, "odd", points=MID, kind="mlp")).worth is Worth.DECODABLE
    (use,) = causal_test(run, "odd", point=MID).values()
    assert use.judged.conclusion in (Conclusion.UNTESTED, Conclusion.UNUSED, Conclusion.LIKE_CONTROLS), use.verdict()


def test_a_line_decodes_an_exclusive_or_of_exact_bits_as_often_as_the_docs_say() -> None:
    """In some draws, with three of four corners right; and in none whose vectors hold any noise."""
    shares = decodable("exactly")
    assert f"{len(shares)} of {DRAWS} draws" in (DOCS / "probing.md").read_text(encoding="utf-8")
    assert f"{len(shares)} of {DRAWS} draws" in (DOCS / "concepts" / "limits.md").read_text(encoding="utf-8")
    assert shares and max(shares) < 0.9 and not decodable("with noise")


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
    points = list(finding.tests)
    assert points[0] == MID and finding.tests[MID].conclusion is not Conclusion.USED, words.finding(finding)
    assert finding.status is Status.USED and finding.point == "blocks.1.hook_resid_mid", words.finding(finding)


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
    assert [finding.status for finding in found if finding.label == "successor"] == [Status.DECODABLE]


def test_what_only_token_and_position_tell_is_no_headline(tmp_path: Path) -> None:
    """At the embedding of a model for increasing subsequences, the programme's entry is guessed from the number."""
    task, model = {"length": 8, "values": 32}, {"d_model": 32, "n_heads": 2, "n_layers": 1}
    run = workbench.train("lis-vanilla", out=tmp_path / "lis", progress=False, steps=50, task=task, model=model)
    (finding,) = ask(run, "lis-table", controls=BASELINES).findings
    embedding = "blocks.0.hook_resid_pre"
    assert finding.point != embedding and embedding not in finding.tests, words.finding(finding)
    found = probe(run, "longest_ending_here", points=embedding)
    assert judge(found).worth is Worth.TOKEN_AND_POSITION and "before attention nothing else is there" in verdict(found)
    (use,) = causal_test(run, "longest_ending_here", point=embedding).values()
    assert use.judged.used is not True, use.verdict()
