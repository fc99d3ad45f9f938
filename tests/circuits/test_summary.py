"""All that is said of a circuit at once, in the library and on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.circuits.conftest import doubled_chaser
from tests.conftest import files_of_at_most
from workbench.circuits import Circuit, Comparison, Graph, faithfulness, smallest_faithful, summary
from workbench.circuits.summary import find_circuit
from workbench.cli import main
from workbench.judgement.faithful import CircuitJudgement, Faithful
from workbench.judgement.words import circuits as words
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.util.seeds import generator


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("run") / "sorter", {"q": 6, "max_length": 6})


@pytest.mark.parametrize(
    ("kept", "edges"),
    [([0.2, 0.95, 0.97, 1.0], 9), ([0.95, 1.2, 1.0, 1.0], 23), ([0.2, 0.4, 0.8, 1.0], 46), ([1.0, 0.4, 0.8, 0.5], 46)],
)
def test_a_circuit_has_the_fewest_edges_from_which_on_enough_is_kept(kept: list[float], edges: int) -> None:
    assert _taken(kept, (), n=2) == edges


@pytest.mark.parametrize(("wide", "n", "edges"), [((), 32, 9), ((0.2,), 32, 23), ((0.2,), 16, 9), ((0.2, 0.5), 32, 9)])
def test_of_enough_pairs_the_whole_interval_is_to_be_within(wide: tuple[float, ...], n: int, edges: int) -> None:
    """Unless only the whole model's is: then the mean decides, as of few pairs."""
    assert _taken([0.2, 0.95, 0.97, 1.0], wide, n) == edges


def _taken(kept: list[float], wide: tuple[float, ...], n: int) -> int:
    """The size taken by what circuits of four sizes keep of n pairs, which differ at the sizes `wide`."""
    shares, apart = [0.1, 0.2, 0.5, 1.0], np.tile([-0.28, 0.28], n // 2)
    values = np.array([level + apart * (share in wide) for share, level in zip(shares, kept, strict=True)])
    coords = {"share": shares, "example": range(n)}
    return summary._size(Measurement("Kept", values, ("share", "example"), coords, "share of the metric"), Graph(2, 2))


def test_a_circuit_is_found_on_half_of_the_pairs_and_tested_on_the_other(sorter: Run) -> None:
    pairs = sorter.task().minimal_pairs(32, generator(0, "pairs"))
    comparison = Comparison(sorter.hooked(), pairs)
    found = find_circuit(comparison, None, generator(0), method="path_patching", size=12)
    assert len(found.comparison.pairs) == 16 and len(found.circuit) <= 12 and found.control is None
    assert (found.comparison.pairs.clean.tokens == pairs.clean.tokens[1::2]).all()
    assert found.curve.mean().values[-1] == pytest.approx(1) and found.without.mean().values[-1] == pytest.approx(0)
    text = found.text()
    assert "on the 16 test pairs (kind symbol): logit difference" in text
    assert "change nothing relevant" not in text
    by_itself = find_circuit(comparison, None, generator(0), method="path_patching", shares=[0.1, 0.3, 1.0])
    assert len(by_itself.circuit) <= round(0.3 * Graph.of(comparison.model).n_edges)


def test_the_circuit_that_is_drawn_is_judged_first_at_its_own_size(sorter: Run) -> None:
    comparison = Comparison(sorter.hooked(), sorter.task().minimal_pairs(64, generator(0, "pairs")))
    found = find_circuit(comparison, None, generator(0), method="path_patching", size=8)
    drawn = found.judgement.drawn
    kept = faithfulness(found.comparison, [found.circuit]).mean()
    assert drawn.edges == len(found.circuit) and drawn.n == 32 and drawn.kept == pytest.approx(float(kept.values[0]))
    assert drawn.result is Faithful.NOT_SETTLED and drawn.answers is not None and drawn.answers < 32
    first = found.text().splitlines()[0]
    assert first.startswith(f"The circuit of {len(found.circuit)} of 46 edges keeps {percent(drawn.kept)} [")
    assert f"and {drawn.answers} of 32 answers on 32 test pairs: not settled, the interval reaches beyond" in first
    by_size = {one.edges: one for one in found.judgement.sizes}
    assert by_size[46].result is Faithful.FAITHFUL and found.judgement.smallest is not None
    assert found.judgement.smallest == smallest_faithful(found.comparison, found.curve)
    assert found.judgement.halves.chance == found.halves.settings["chance"]


def test_the_circuit_that_is_taken_keeps_no_more_than_a_faithful_one() -> None:
    comparison = doubled_chaser((2.0, -1.0), n=64)
    found = find_circuit(comparison, None, generator(0), method="path_patching", shares=[0.25, 0.5, 0.75, 1.0])
    assert found.curve.mean().values.max() > 1.8, "a small one leaves the inhibition head out"
    assert found.judgement.drawn.result is Faithful.FAITHFUL


@pytest.mark.parametrize("size", [0, 1000, 9000])
def test_a_full_disk_leaves_nothing_of_a_circuit(
    sorter: Run, size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["circuit", str(sorter.path), "--n", "8", "--edges", "10", "--out", str(tmp_path / "circuit")]
    with files_of_at_most(size):
        assert main(command) == 1
    said = capsys.readouterr().err
    assert re.search(rf"File too large: '{tmp_path}/circuit/[a-z_.]+'\n$", said) and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_command_line_says_it_and_writes_it(
    sorter: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "circuit"
    assert main(["circuit", str(sorter.path), "symbol", "--n", "16", "--edges", "10", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "EAP with integrated gradients" in text and "pairs that change nothing relevant: the largest" in text
    number = r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]"
    assert len(re.findall(rf"^  \S+->\S+ +{number} +{number}$", text, re.MULTILINE)) >= 3
    judgement = CircuitJudgement.model_validate_json((out / "judgement.json").read_text(encoding="utf-8"))
    assert judgement.drawn.n == 8 and words.of_circuit(judgement.drawn, judgement.metric, 46) in text
    circuit = Circuit.from_json((out / "circuit.json").read_text(encoding="utf-8"))
    assert 0 < len(circuit) <= 10 and (out / "circuit.dot").read_text(encoding="utf-8").startswith("digraph")
    scores = pd.read_csv(out / "scores.csv")
    assert len(scores) == 46 and {"edge", "value", "low", "high", "n"} <= set(scores)
    assert set(pd.read_csv(out / "control.csv")["edge"]) == set(scores["edge"])
    nodes, control = (pd.read_csv(out / f"{stem}.csv") for stem in ("nodes", "nodes_control"))
    assert set(nodes["node"]) == set(control["node"]) == set(circuit.graph.writers) - {"input"}
    assert nodes["low"].notna().any() and (nodes["low"] <= nodes["value"])[nodes["low"].notna()].all()
    assert abs(nodes["value"]).max() > 3 * abs(control["value"]).max()
    assert main(["circuit", str(sorter.path), "--n", "8", "--edges", "10", "--later"]) == 0
    assert "on the 4 test pairs (kind symbol, later answers): logit difference" in capsys.readouterr().out
    for wrong, said in (
        (["symbl"], "unknown kind of pair of sorting 'symbl'"),
        (["--method", "acdc"], "unknown method 'acdc'"),
        (["--metric", "loss"], "unknown metric 'loss'"),
        (["--n", "1"], "4 pairs or more are needed (--n)"),
        (["--edges", "99"], "a circuit has 0 to 46 edges here, not 99"),
        (["--out", str(out)], "circuit"),
    ):
        assert main(["circuit", str(sorter.path), *wrong]) == 2
        assert said in capsys.readouterr().err
