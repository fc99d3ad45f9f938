"""A plugin as it could be written when the golden runs were made: one small part of each kind. It is never changed."""

from types import SimpleNamespace

import torch
from pydantic import Field

from workbench.instruments.attention.attention_graph import by_head, needs, why_not
from workbench.interventions import cut_test
from workbench.measurement import Measurement
from workbench.models.attention import base
from workbench.objectives import Objective
from workbench.probes.presets import Preset
from workbench.studies import Reaches, Study
from workbench.studies.figures import by_group
from workbench.studies.measures import Logged
from workbench.tasks import Batch, Task, Truth, Vocabulary


class Backwards(Task):
    """Digits, a bar, and the digits from last to first: `3 1 4 | 4 1 3`. Gold edges lead to the digit repeated."""

    name = "backwards"
    summary = "digits, and the same digits from last to first"
    group, unit = "place", "position"
    length: int = Field(4, ge=2, le=32, description="digits in a number")
    vocabulary = property(lambda self: Vocabulary((*"0123456789", "|")))
    n_ctx = property(lambda self: 2 * self.length + 1)
    groups = property(lambda self: tuple(range(1, self.length + 1)))

    def draw(self, n, generator, *, head="main", **condition):
        self.refuse(condition)
        return self._batch(torch.randint(10, (n, self.length), generator=generator))

    def _batch(self, digits):
        bar = torch.full_like(digits[:, :1], 10)
        return Batch.next_token(torch.cat([digits, bar, digits.flip(1)], dim=1), self.length, 2 * self.length)

    def question_length(self, tokens):
        return torch.full((len(tokens),), self.length + 1)

    def truth(self, tokens):
        n, place = len(tokens), torch.arange(self.length)
        labels = torch.full_like(tokens, -1)
        labels[:, self.length : -1] = place + 1
        edges = torch.stack([torch.ones_like(place), self.length + place, self.length - 1 - place], dim=1)
        example = torch.arange(n).repeat_interleave(self.length)[:, None]
        return Truth(torch.cat([example, edges.repeat(n, 1)], dim=1), {"place": labels})

    def parse(self, text):
        digits = self.vocabulary.encode(text.strip().removesuffix("|"))
        if len(digits) != self.length or 10 in digits:
            raise ValueError(f"type {self.length} digits, not {text!r}")
        return self._batch(torch.tensor([digits]))


class Sigmoid(base.Attention):
    """sigmoid(q kᵀ / sqrt(d_head) + bias − ln n) v, n the keys up to the query; rows need not sum to 1."""

    name = "golden_sigmoid"

    class Settings(base.Settings):
        """Settings of `golden_sigmoid`."""

        bias: float = 0.0

    def pattern(self, q, k, at=None):
        n_keys = base.query_positions(q, k, at).unsqueeze(-1) + 1
        return (self.scores(q, k, at) + self.settings.bias - n_keys.log().to(q.dtype)).sigmoid()


class SmallResidual(Objective):
    """The mean square of the last residual at the scored positions, times a weight."""

    name = "small_residual"
    needs = ("blocks.0.hook_resid_post",)

    class Settings(Objective.Settings):
        """Settings of `small_residual`."""

        weight: float = 0.01

    def forward(self, logits, kept, batch):
        scored = batch.loss_mask.unsqueeze(-1)
        size = (kept[self.needs[0]].square().mean(-1, keepdim=True) * scored).sum() / scored.sum()
        loss = self.settings.weight * size
        return loss, {"small_residual": loss.detach()}


def distance(capture):
    """Mean distance from query to key, weighted by the pattern: dims `layer`, `head`, `example`."""
    position = torch.arange(capture.batch.tokens.shape[1])
    how_far = position[:, None] - position

    def mean(pattern):
        return (pattern * how_far).sum(-1).mean(-1)

    caption = "Mean number of positions between a query and what it attends to, whatever is read there."
    return by_head(capture, mean, name="Attention distance", units="positions", caption=caption)


def size(subject):
    """The mean square of the embedding of each token: dims `token`."""
    embedding = subject.model.token_embedding.weight.detach()
    return Measurement(
        name="Size of embeddings",
        values=embedding.square().mean(-1).double().numpy(),
        dims=("token",),
        coords={"token": [str(token) for token in range(len(embedding))]},
        units="square",
        settings={"model": subject.name},
        caption="The mean square of the embedding of each token. It does not show what reads it.",
    )


def score(capture):
    """Share of queries whose gold key gets more attention than any other: dims `layer`, `head`, `example`."""
    gold = capture.truth.adjacency(*capture.batch.tokens.shape, hop=1)[:, None]

    def share(pattern):
        right = gold.expand_as(pattern).gather(-1, pattern.argmax(-1, keepdim=True))[..., 0]
        return right.sum(-1) / gold.any(-1).sum(-1)

    caption = "Share of queries of which a key at a gold edge gets more of the head's row than any other position."
    return by_head(capture, share, name="Digit read", units="share", caption=caption)


def causal(model, subject, batch, generator, *, heads=None):
    """What becomes of one right answer of each example when an edge is cut: dims `edit`, `outcome`, `example`."""
    gold = subject.task.truth(batch.tokens).adjacency(*batch.tokens.shape, hop=1)
    caption = "Whether an answer is lost without its gold edge (claimed), or without another edge (elsewhere)."
    return cut_test(model, subject, batch, gold, generator, heads=heads, name="Digit read: cut", caption=caption)


class Part(SimpleNamespace):
    """How far each head looks back, how large embeddings are, whether the digit is read.

    What a module with these functions would be.
    """


TASKS = {"backwards": Backwards}
ATTENTION = {"golden_sigmoid": Sigmoid}
OBJECTIVES = {"small_residual": SmallResidual}
INSTRUMENTS = {
    "golden_distance": Part(measure=distance, needs=needs, why_not=lambda subject: None, CONTROLS=("untrained",))
}
WEIGHTS = {"golden_size": Part(measure=size, why_not=lambda subject: None, CONTROLS=())}
MECHANISMS = {
    "golden_read": Part(score=score, causal=causal, needs=needs, why_not=why_not, CONTROLS=("mismatched", "untrained"))
}
PROBES = {"golden-place": Preset("Does each token know its place?", ("backwards",), ("place",), "labelled", n=40)}
PRESETS = {
    "golden-backwards": {
        "task": {"name": "backwards"},
        "model": {"n_layers": 1, "d_model": 16, "n_heads": 2, "attention": "golden_sigmoid"},
        "objectives": {"next_token": {}, "small_residual": {"weight": 0.1}},
        "steps": 100,
    }
}
STUDIES = {
    "golden-study": Study(
        question="Are 100 steps enough?",
        runs={"small": {"preset": "golden-backwards"}},
        measure=Logged(("accuracy",)),
        contrasts=[Reaches("accuracy", "golden-backwards", 0.99)],
        draw=lambda groups: by_group(groups, "accuracy", "Accuracy after 100 steps"),
    )
}
