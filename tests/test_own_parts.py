"""A new part in the repository is one new file and one entry in a dict, and everything else takes it up.

An attention variant of several steps, a mechanism and a control, which are written here. Parts that come as plugins
are those of the notebook on own parts, and of `test_plugins.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("workbench", "probes", "app", "tests")
TESTS = (
    "tests/test_contracts.py",
    "tests/models/test_variant_contracts.py",
    "tests/tasks/test_task_contracts.py",
    "tests/test_safety.py",
    "tests/training/test_evaluation.py",
    "tests/models/test_attention.py",
)

Run = Callable[..., str]

pytestmark = pytest.mark.slow


def copied(to: Path) -> Path:
    """A copy of the repository."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, to / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def python_in(folder: Path) -> Run:
    """Python in a copy: its output."""

    def run(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return run


VARIANT = '''\
"""Neumann: the first three terms of the series that ChaCAL sums to its end."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from workbench.models.attention import base


class NeumannAttention(base.Attention):
    """(4 A + 2 A² + A³) v / 7."""

    name = "neumann"
    passes_constants = True

    def step_terms(self, pattern: Tensor) -> Iterator[Tensor]:
        power = pattern
        for weight in (4, 2, 1):
            yield weight / 7 * power
            power = power @ pattern

    def read(self, pattern: Tensor, v: Tensor) -> Tensor:
        return torch.stack([term @ v for term in self.step_terms(pattern)]).sum(0)
'''

CONTROL = '''\
"""The control `uniform`: attention that is the same to every key up to the query."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.capture import Capture
from workbench.measurement.controls.base import Control


def uniform(capture: Capture, generator: torch.Generator) -> Capture:
    """The same capture with each attention pattern replaced by the mean over the keys up to the query."""
    activations = dict(capture.activations)
    for name, A in activations.items():
        if name.endswith("attn.hook_pattern"):
            ones = torch.ones_like(A).tril()
            activations[name] = ones / ones.sum(-1, keepdim=True)
    return replace(capture, activations=activations)


CONTROL = Control("attention to all keys alike", "all alike", uniform)
'''

MECHANISM = '''\
"""Parent read: the first layer's heads together give the largest share of each row to the true parent.

It does not show what is read there. Control: attention that is the same to every key (`uniform`).
"""

from __future__ import annotations

import torch

from workbench.capture import Capture, Subject
from workbench.instruments.attention import attention_graph
from workbench.measurement import Measurement
from workbench.mechanisms import chain_following
from workbench.tasks import Batch

CONTROLS = ("uniform",)

needs = attention_graph.needs
why_not = chain_following.why_not


def score(capture: Capture) -> Measurement:
    """Share of queries with a parent whose row is largest there: dims `example`."""
    row = attention_graph.pattern(capture, 0).mean(1).cpu()
    row = row.masked_fill(torch.eye(row.shape[-1], dtype=torch.bool), 0.0)
    parent = capture.truth.adjacency(*capture.batch.tokens.shape, 1)
    hit = ((row == row.amax(-1, keepdim=True)) & parent).any(-1) & ((row == row.amax(-1, keepdim=True)).sum(-1) == 1)
    return Measurement(
        name="Parent read",
        values=(hit.sum(-1) / parent.any(-1).sum(-1)).double().numpy(),
        dims=("example",),
        coords={"example": range(len(row))},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of queries whose true parent gets more of the first layer's attention than any other position.",
    )


def causal(model, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """What becomes of a query's answers when the edge to a parent is cut in every head."""
    return chain_following.causal(model, subject, batch, generator, hops=[1]).select(hop=1)
'''

OWN = {
    "workbench/models/attention/neumann.py": VARIANT,
    "workbench/measurement/controls/uniform.py": CONTROL,
    "workbench/mechanisms/parent_read.py": MECHANISM,
}
ENTRIES = (  # file, line, the line that comes below it
    (
        "workbench/models/attention/__init__.py",
        "from workbench.models.attention.base import Attention",
        "from workbench.models.attention.neumann import NeumannAttention",
    ),
    (
        "workbench/models/attention/__init__.py",
        '    "standard": StandardAttention,',
        '    "neumann": NeumannAttention,',
    ),
    (
        "workbench/measurement/controls/__init__.py",
        "from workbench.measurement.controls.base import Control",
        "from workbench.measurement.controls import uniform",
    ),
    (
        "workbench/measurement/controls/__init__.py",
        '    "mismatched": mismatched.CONTROL,',
        '    "uniform": uniform.CONTROL,',
    ),
    ("workbench/mechanisms/__init__.py", "    minimum,", "    parent_read,"),
    ("workbench/mechanisms/__init__.py", '    "minimum": minimum,', '    "parent_read": parent_read,'),
)

HOPS = """\
import numpy as np
import torch
import workbench
from workbench import figures
from workbench.instruments.attention import attention_graph, graph_measures, path_mass

run = workbench.load_run("run")
seen = workbench.see(run, run.task().sample(8, workbench.generator(0)))
n, n_pos = seen.batch.tokens.shape
A = attention_graph.pattern(seen, 0).double()
applied = (4 * A + 2 * A @ A + A @ A @ A) / 7
gold, deep = seen.truth.adjacency(n, n_pos), seen.truth.n_hops
queries = gold.any(-1)[:, None]


def mass(keys):
    each = (applied * keys[:, None]).sum(-1)
    return (((each * queries).sum(-1) / queries.sum(-1)).T)[None].numpy()


by_hop = path_mass.measure(seen)
for hop in range(1, deep + 1):
    np.testing.assert_allclose(by_hop.select(hop=hop).values, mass(seen.truth.adjacency(n, n_pos, hop)), atol=1e-6)
np.testing.assert_allclose(by_hop.select(hop="chain").values, mass(gold), atol=1e-6)
np.testing.assert_allclose(attention_graph.measure(seen).select(matrix="resolvent").values, mass(gold), atol=1e-6)
graph = graph_measures.measure(seen)
assert "undefined" not in graph.settings
np.testing.assert_allclose(graph.select(measure="path length").values, (1 * 4 + 2 * 2 + 3 * 1) / 7, atol=1e-6)
assert "several steps" in seen.subject.attention[0].how_it_reads

one = attention_graph.matrices(seen, 0, 0, 0)
np.testing.assert_allclose(one.select(matrix="resolvent").values, applied[0, 0].numpy(), atol=1e-6)
heat = figures.attention_matrix(one, "resolvent", attention_graph.gold_edges(seen, 0))
assert any(trace.type == "heatmap" and np.allclose(trace.z, applied[0, 0], atol=1e-6) for trace in heat.data)
assert len(figures.hop_matrices(one, None, attention_graph.gold_edges(seen, 0)).data) >= 4
of_head = by_hop.select(layer=0, head=0).mean("example")
(ladder,) = figures.hop_ladder({"neumann": of_head}, {})
drawn = {trace.name: trace.x[0] for trace in ladder.data if trace.type == "bar"}
for hop in range(1, deep + 1):
    np.testing.assert_allclose(drawn[f"hop {hop}"], mass(seen.truth.adjacency(n, n_pos, hop))[0, 0].mean(), atol=1e-6)
(drawing,) = figures.graph_measures({"neumann": graph.mean("example")}, {})
assert any(np.allclose(trace.x, 11 / 7, atol=1e-6) for trace in drawing.data)
print("as computed by hand")
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the three parts above, and a run trained with the variant."""
    house = copied(tmp_path_factory.mktemp("house"))
    for file, source in OWN.items():
        (house / file).write_text(source, encoding="utf-8")
    for file, line, below in ENTRIES:
        text = (house / file).read_text(encoding="utf-8")
        assert text.count(f"\n{line}\n") == 1, (file, line)
        (house / file).write_text(text.replace(f"\n{line}\n", f"\n{line}\n{below}\n"), encoding="utf-8")
    task = ("--task.n", "16", "--task.k", "4", "--steps", "20", "--eval_size", "16", "--quiet")
    train = ("train", "chain-chacal", "--out", "run", "--model.attention", "neumann")
    python_in(house)("-m", "workbench", *train, *task)
    return house


def test_a_new_variant_mechanism_and_control_pass_every_test_that_tries_all_parts(house: Path) -> None:
    said = python_in(house)("-m", "pytest", "-p", "no:cacheprovider", *TESTS, "-k", "neumann or parent_read or nulls")
    assert int(said.split(" passed")[0].split()[-1]) > 30 and "failed" not in said


def test_the_hops_of_a_new_variant_of_several_steps_are_measured_and_drawn(house: Path) -> None:
    (house / "hops.py").write_text(HOPS, encoding="utf-8")
    assert python_in(house)("hops.py").endswith("as computed by hand\n")


def test_a_new_mechanism_and_a_new_control_are_measured_drawn_and_named_in_the_report(house: Path) -> None:
    python_in(house)("-m", "workbench", "inspect", "run", "--n", "16", "--quiet")
    files = {path.stem for path in (house / "run" / "inspection" / "data").rglob("*.csv")}
    assert files >= {"parent_read", "parent_read-uniform", "parent_read-causal"}
    report = (house / "run" / "inspection" / "report.html").read_text(encoding="utf-8")
    assert report.count("Parent read") >= 2 and "all alike" in report
    assert "Share of queries whose true parent gets more of the first layer" in report
