"""All probes of a model at once beside a loop of scikit-learn's, each of which fits one point, position and label.

A 4-layer decoder, 128 wide, on pointer chains of 32 tokens; 5,000 sequences, all 9 points of the residual, all 32
positions, 10 labels. Ours is all that `probes.probe` does: drawing, running the model, fitting, trying, intervals. The
peer is `StandardScaler` and `LogisticRegression` of the same penalty on the same vectors, which are made beforehand. Of
its probes, which would take hours, some are fitted, at every third point and at six positions; its time is theirs times
the number of all. Both have two threads.

python tests/benchmarks/bench_probes.py            print the table
python tests/benchmarks/bench_probes.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from harness import Table, main
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import workbench
from workbench.probes import probe
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.runs import Run

LABELS = ["root", "root_position", "parent", "token", *(f"ancestor_{hop}" for hop in range(2, 8))]
SEQUENCES, L2 = 5000, 0.1


def trained() -> Run:
    """A model that learnt something, so that some labels are there and some are not."""
    model = {"n_layers": 4, "d_model": 128}
    folder = Path(tempfile.mkdtemp()) / "chain-standard"
    return workbench.train("chain-standard", out=folder, progress=False, steps=150, model=model)


def comparison() -> Table:
    torch.set_num_threads(2)
    run = trained()
    start = time.perf_counter()
    found = probe(run, LABELS, positions="each", n=SEQUENCES, controls=(), l2=L2).select(condition="trained")
    ours = time.perf_counter() - start
    fitted = int((~np.isnan(found.values)).sum())

    asked = ProbeData.of(Source.of_run(run, None, n=SEQUENCES, seed=0, step=None), LABELS, "each", 0)
    fit, test, x = asked.split.fit, asked.split.test, asked.x
    taken, theirs, own = [], [], []
    with threadpool_limits(2):
        for point in range(0, len(found.coords["point"]), 3):
            for place in (2, 6, 10, 16, 22, 28):
                for label in range(len(LABELS)):
                    name = asked.where.names[place]
                    y = asked.y[label][place]
                    if len(y[fit].unique()) < 2 or int(y.min()) < 0:
                        continue
                    start = time.perf_counter()
                    scaler = StandardScaler().fit(x[point, place, fit])
                    model = LogisticRegression(C=1 / L2, max_iter=1000)
                    model.fit(scaler.transform(x[point, place, fit]), y[fit])
                    theirs.append(model.score(scaler.transform(x[point, place, test]), y[test]))
                    taken.append(time.perf_counter() - start)
                    at = {"label": LABELS[label], "point": found.coords["point"][point], "place": name}
                    own.append(float(found.select(**at).values))
    apart = np.array(own) - np.array(theirs)
    table = Table("probes", "probes", "ours", "a loop's, from some", "loop / ours", "apart, mean", "apart, most")
    loop = float(np.mean(taken)) * fitted
    size = f"{len(found.coords['point'])} points × {len(found.coords['place'])} positions × {len(LABELS)} labels"
    table.add(
        f"{size}, {fitted:,} with two classes or more",
        f"{ours:.0f} s",
        f"{loop:.0f} s ({len(taken)} probes, {np.mean(taken):.2f} s each)",
        f"{loop / ours:.1f}",
        f"{100 * apart.mean():+.2f} points",
        f"{100 * np.abs(apart).max():.2f} points",
    )
    table.ask("seconds for all", ours, most=60)
    table.ask("loop / ours", loop / ours, least=10)
    table.ask("points apart, mean", 100 * abs(apart.mean()), most=1)
    return table


if __name__ == "__main__":
    main(__doc__, comparison)
