# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How do I add my own task, attention variant and instrument?
#
# Each is a file of your own with one entry in a dict: a *plugin*. It can lie anywhere; this notebook writes three into
# a new folder. The command line then lists them, trains the task with the attention, and measures with the instrument;
# and the contract tests that every part must pass are run on them. Nothing in the installed package is touched.
#
# The three parts belong together. The task is *associative recall*: `c 4 a 0 b 4 d 9`, then the letters again, each
# to be answered with its digit. It takes two steps: a digit has to find the letter *right before* it, then a letter
# at the end has to find the digit that knows it. A model without positional embeddings has no good way to look right
# before. So the attention variant makes scores fall with distance, by a slope that each layer learns. The instrument
# asks how far back each head looks.

# %%
import os
import sys
import tempfile
from pathlib import Path

os.chdir(tempfile.mkdtemp())  # a new folder
python = f"{sys.executable} -P"

# %% [markdown]
# ## The task: one file
#
# A task subclasses `Task`. Its fields are its settings, with their limits. `draw` makes sequences from the generator
# it is given and from nothing else; `truth` says what holds of them: labels for each position, and *gold edges* from
# where something is asked to where the answer stands. Overlays, attention scores and probes read the truth; the model
# never does. `parse` reads what a person types. Splitting into training and test is inherited.

# %%
source = '''\
"""Associative recall: keys with their values, then the keys alone; each is to be answered with its value."""

from __future__ import annotations

from functools import cached_property
from string import ascii_lowercase
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from workbench.tasks import Batch, Task, Truth, Vocabulary


class Recall(Task):
    """Pairs of a letter and a digit, then the same letters in another order.

        input    c 4 a 0 b 4 a b c
        scored               ^ ^ ^      (a predicts 0, b and c predict 4)

    Labels, at the scored positions: `pair` (which pair was asked for, from 1) and `value` (a token). Gold edges of
    hop 1: from a scored position to its pair's value.
    """

    name: ClassVar[str] = "recall"
    summary: ClassVar[str] = "letters with digits, then the letters alone: which digit had each?"
    group: ClassVar[str] = "pair"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("value",)

    pairs: int = Field(4, ge=1, le=26, description="pairs of a letter and a digit")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*ascii_lowercase, *"0123456789"))

    @property
    def n_ctx(self) -> int:
        return 3 * self.pairs

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.pairs + 1))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        keys = torch.rand(n, 26, generator=generator).argsort(-1)[:, : self.pairs]
        values = torch.randint(26, 36, keys.shape, generator=generator)
        order = torch.rand(keys.shape, generator=generator).argsort(-1)
        return self._batch(torch.cat([torch.stack([keys, values], dim=2).flatten(1), keys.gather(1, order)], dim=1))

    def _pair(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch asked"]:
        """Which pair each of the letters at the end asks for, from 0."""
        start = 2 * self.pairs
        return (tokens[:, start:, None] == tokens[:, None, :start:2]).long().argmax(-1)

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        answers = tokens.gather(1, 2 * self._pair(tokens) + 1)
        scored = (torch.arange(self.n_ctx) >= 2 * self.pairs).expand_as(tokens)
        return Batch(tokens, torch.zeros_like(tokens).masked_scatter(scored, answers), scored)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        pair, start = self._pair(tokens), 2 * self.pairs
        labels = {name: torch.full_like(tokens, -1) for name in ("pair", "value")}
        labels["pair"][:, start:] = pair + 1
        labels["value"][:, start:] = tokens.gather(1, 2 * pair + 1)
        example, asked = torch.ones_like(pair).nonzero(as_tuple=True)
        columns = [example, torch.ones_like(example), start + asked, 2 * pair[example, asked] + 1]
        return Truth(torch.stack(columns, dim=1), labels)

    def parse(self, text: str) -> Batch:
        tokens = torch.tensor([self.vocabulary.encode(text)])
        start = 2 * self.pairs
        keys, values, asked = tokens[0, :start:2], tokens[0, 1:start:2], tokens[0, start:]
        letters = sorted(set(keys.tolist()))
        fits = len(values) == len(letters) == self.pairs and max(letters) < 26 <= int(values.min())
        if not fits or sorted(asked.tolist()) != letters:
            raise ValueError(f"type {self.pairs} letters with a digit each, then the same letters, not {text!r}")
        return self._batch(tokens)


TASKS = {"recall": Recall}
'''
print(Path("recall.py").write_text(source, encoding="utf-8"), "characters")

# %% [markdown]
# ## The attention variant: one file
#
# A variant subclasses `Attention`, and has two paths that must agree. Inspection asks it for its `pattern`, here the
# softmax of its `scores`, and has it `read` the values through that, so that an edit of the pattern changes what is
# read. Training takes the fast path, `mix`; `hook` compares the two on a few tokens, and refuses a model in which they
# differ. One that says only `scores` is complete; `mix` here hands the same bias to PyTorch's own attention. (A variant
# with a `read` of its own also says by how many steps it reads, in `step_terms`.)

# %%
source = '''\
"""Recency: softmax whose scores fall with the distance to the key, by a slope that each layer learns.

ALiBi (Press, Smith and Lewis, 2022) but for the slope, which there is given to each head.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from workbench.models.attention import base


class RecencyAttention(base.Attention):
    """softmax(q kᵀ / sqrt(d_head) − slope · distance) v. A slope of 0 is standard attention."""

    name = "recency"

    class Settings(base.Settings):
        """Settings of `recency`."""

        slope: float = Field(2.0, description="what each further position takes off the score, to begin with")

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.slope = nn.Parameter(torch.tensor(self.settings.slope))

    def bias(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        """What the distance adds to each score: −slope · distance, and −inf where the key is yet to come."""
        distance = base.query_positions(q, k, at).unsqueeze(-1) - torch.arange(k.shape[-2], device=q.device)
        return (-self.slope * distance).masked_fill(distance < 0, float("-inf")).to(q.dtype)

    def scores(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + self.bias(q, k, at)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The fast path: PyTorch's own attention, which takes the bias as its mask."""
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(q, k))


ATTENTION = {"recency": RecencyAttention}
'''
print(Path("recency.py").write_text(source, encoding="utf-8"), "characters")

# %% [markdown]
# ## The instrument: one file
#
# An instrument is a module: `needs` names the activations to capture, `measure` makes a number for every example from
# them, `CONTROLS` names what the number is held against, `why_not` says where it means nothing. The text at its top
# must say what it does *not* show; a test looks.

# %%
source = '''\
"""Attention distance: how many positions each head looks back, on average.

Shows: which heads read their neighbours and which read from afar. Does not show: what they read there, or that the
model needs it; a head that reads two places alike has their mean distance. Control: models of the same shape with
fresh weights (`untrained`), and attention drawn at random over earlier positions (`random_graph`).
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from workbench.capture import Capture, Subject
from workbench.instruments.attention.attention_graph import needs, pattern, unit_rows
from workbench.measurement import Measurement

CONTROLS = ("untrained", "random_graph")


def why_not(subject: Subject) -> str | None:
    """None: every model has attention."""
    return None


def measure(capture: Capture, *, scored: bool = False) -> Measurement:
    """Mean distance from query to key, weighted by the pattern: dims `layer`, `head`, `example`.

    Args:
        capture: with every layer's pattern.
        scored: over the positions that are scored alone; by default over all real ones.
    """
    task, tokens = capture.subject.task, capture.batch.tokens
    position = torch.arange(tokens.shape[1])
    distance = position[:, None] - position
    queries = capture.batch.loss_mask if scored else position < task.lengths(tokens)[:, None]
    by_layer = []
    for layer in range(capture.subject.n_layers):
        looked = (unit_rows(pattern(capture, layer)).double() * distance).sum(-1)  # [batch, head, query]
        by_layer.append(((looked * queries[:, None]).sum(-1) / queries.sum(-1)[:, None]).T.numpy())
    values = np.stack(by_layer)
    return Measurement(
        name="Attention distance",
        values=values,
        dims=("layer", "head", "example"),
        coords={"layer": range(values.shape[0]), "head": range(values.shape[1]), "example": range(len(tokens))},
        units="positions",
        settings={"model": capture.subject.name, "queries": "scored" if scored else "all"},
        caption="Mean number of positions between a query and what it attends to, whatever is read there.",
    )


INSTRUMENTS = {"attention_distance": sys.modules[__name__]}  # the module with `measure`
'''
print(Path("attention_distance.py").write_text(source, encoding="utf-8"), "characters")

# %% [markdown]
# ## Load them
#
# Every command takes `--plugin FILE`. What the environment variable `WORKBENCH_PLUGINS` lists, all commands load, and
# so do the processes that they start. In Python it is one line.

# %%
import workbench

files = ["recall.py", "recency.py", "attention_distance.py"]
os.environ["WORKBENCH_PLUGINS"] = os.pathsep.join(files)
workbench.load_plugins(files)

# %% [markdown]
# The command line knows all three, with their settings and the words of their files.

# %%
# !{python} -m workbench list tasks | grep -A1 "^recall"
# !{python} -m workbench list variants | grep -A1 "^recency"
# !{python} -m workbench list instruments | grep -A1 "^attention_distance"
# !{python} -m workbench data recall --count 1

# %% [markdown]
# The checks that every task, variant and instrument of the package has to pass ship with it. Among others: that fast
# and explicit path agree with each other and with decoding, in values and gradients; that training and test share no
# question; that what is sampled can be typed; that the instrument says what it does not show. In a test file of one's
# own it is one line, `test_my_parts = contract("recall.py")`. Here are those that were held:

# %%
from workbench.testing import check

for file in files:
    held = check(file)
    print(f"{file}: {len(held)} checks held, such as: {held[-1].what}")

# %% [markdown]
# ## Train
#
# Any preset trains any task: its fields are replaced. Two layers without positional embeddings, 64 wide, 500 steps,
# three seeds at once; recency in the first layer. Beside it the same with standard attention in both.

# %%
# !{python} -m workbench train chain-standard --out runs/recency --seeds 3 --quiet --steps 500 --learning_rate 2e-3 \
#     --task.name recall --model.n_layers 2 --model.positions none --model.attention recency,standard
# !{python} -m workbench train chain-standard --out runs/standard --seeds 3 --quiet --steps 500 --learning_rate 2e-3 \
#     --task.name recall --model.n_layers 2 --model.positions none --model.attention standard

# %% [markdown]
# ## Inspect
#
# With the new instrument and two that were there before: accuracy, which breaks down by the label that the task
# named, and head roles. Every run is measured on the same 256 held-out sequences, its numbers go to files, and seeds
# are taken together.

# %%
# !{python} -m workbench inspect runs/recency/seed-* runs/standard/seed-* --out report --quiet \
#     --only accuracy attention_distance head_roles | tail -1

# %%
import pandas as pd

names = ["recency, 3 seeds", "standard, 3 seeds"]
table = pd.concat({name: pd.read_csv(f"report/data/{name}/accuracy.csv", index_col="pair") for name in names}, axis=1)
table.round(3)

# %% [markdown]
# That is the accuracy by which of the four pairs was asked for: mean over three seeds, with a 95 % interval. How
# much is a guess worth? Some digits occur twice, so naming the commonest digit of the sequence does better than one
# in ten or one in four. Any bag of what occurred allows that much.

# %%
import plotly.io as pio

from workbench import figures
from workbench.inspection import inspect_run
from workbench.instruments.attention import attention_graph

pio.renderers.default = "plotly_mimetype"
pio.templates.default = "plotly_white"
runs = {name: [workbench.load_run(f"runs/{name}/seed-{seed}") for seed in range(3)] for name in ("recency", "standard")}
task = runs["recency"][0].task()
digits = task.sample(10_000, workbench.generator(0)).tokens[:, 1 : 2 * task.pairs : 2]
print(
    f"the commonest digit: {(digits[:, :, None] == digits[:, None]).sum(-1).amax(-1).float().mean() / task.pairs:.1%}"
)
for run in runs["recency"]:
    print(f"{run.name}: slope {run.model().layers[0].attn.variant.slope.item():.2f}")

# %% [markdown]
# The slope began at 2 and stayed near it. Now the instruments, over the positions where something is asked, on the
# first seed. An instrument without a drawing of its own is drawn from its dims, its controls beside it.

# %%
settings = {"attention_distance": {"scored": True}}
seen = inspect_run(runs["recency"][0], n=256, seed=0, name="recency", settings=settings)
controls = {"recency": {null: one.mean for null, one in seen["attention_distance"].controls.items()}}
figures.draw("attention_distance", {"recency": seen["attention_distance"].mean}, controls, {})[0]

# %% [markdown]
# In the first layer the letters at the end look at themselves or right before them, in the second several positions
# back. Whether at the *right* place, the instrument does not say, and a layer that has learned nothing looks several
# positions back as well. That is for an instrument that was there before: it takes this task's gold edges as it takes
# any other's. *Gold precision* is the share of a query's attention on the value it needs, over the letters at the
# end; *previous token* is over all positions.

# %%
figures.draw("head_roles", {"recency": seen["head_roles"].mean}, {}, {})[0]

# %%
for name, of in runs.items():
    for run in of:
        one = inspect_run(run, n=256, seed=0, only=["gold_mass"])
        result = one["gold_mass"].at_head()
        mass, control = result.mean, result.controls["mismatched"].mean.values
        said = f"{mass.values:.1%} [{mass.low:.1%}, {mass.high:.1%}] on gold edges"
        print(f"{name}, {run.name}: {said}; on another sequence's {control:.1%}; head {one.head}")

# %% [markdown]
# The head is each run's best, chosen on other sequences than it is scored on. Here it is on one sequence, with the
# gold edges framed:

# %%
layer, head = seen.head
matrices = attention_graph.matrices(seen.example, 0, layer, head)
figures.attention_matrix(matrices, "pattern", attention_graph.gold_edges(seen.example, 0))

# %% [markdown]
# ## Answer
#
# Write three files, name them once, and the rest follows: the command line lists, samples, trains and inspects the new
# parts, the instruments and figures that were there take the new task's truth, and the contract tests try all three.
# `workbench new task NAME` begins such a file for you, and so for the other kinds.
#
# As for the parts themselves: with recency in the first layer and no positional embeddings, most answers are right
# after 500 steps, on each of three seeds; the same model with standard attention in both layers stays at what naming
# the commonest digit is worth. In the second layer of the first kind a head puts most of its attention on the value
# that is asked for, well above what it puts on another sequence's; in the second kind none does better than that
# control. The slopes hardly moved from where they began, so it is not training that chose them. This is a small
# demonstration: three seeds, one width, one learning rate, 500 steps, which do not bring every seed to the end; the
# standard model was given no other way to tell positions apart, which learned positional embeddings would be.
