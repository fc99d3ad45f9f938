"""Methods run on subjects: what is done is kept, and what is done already is not done again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch.nn.modules.module import register_module_forward_hook

from workbench.benchmark.methods import METHODS
from workbench.benchmark.questions import LABELS, NULLS, check_seed, posed
from workbench.benchmark.results import Results, Row
from workbench.benchmark.scoring import score
from workbench.benchmark.subjects import SUBJECTS
from workbench.models.hooked_attention import ExplicitAttentionBridge
from workbench.models.layers import MultiHeadAttention
from workbench.util.lookup import lookup
from workbench.util.messages import brief
from workbench.util.progress import duration, shown, steps, untold

PER_SUITE = 20  # seeds that the suites of one `--seed` may have: those of the next begin behind them
SLOW = {"causal_test": 2.1, "probe_mlp": 1.0, "transformer_lens_eap": 0.9}  # seconds of a subject, on one core
OTHERS, POSING = 0.3, 2.0  # seconds of other methods, and of making a subject's questions


@dataclass(frozen=True)
class Suite:
    """Which methods are run on which subjects, and how many seeds of each."""

    methods: tuple[str, ...]
    subjects: tuple[str, ...]
    seeds: int


SUITES = {
    "quick": Suite(
        ("random", "eap", "path_patching", "activation_patching", "probe", "causal_test"),
        ("shared_out", "either_head", "induction", "exclusive_or", "idle_minimum", "turned_token"),
        3,
    ),
    "full": Suite((), (), PER_SUITE),  # all that there are
}

Piece = tuple[str, int, list[str]]
"""A subject's name and seed, and the methods that are still to be run on it."""


def bench(
    methods: Sequence[str] = (),
    *,
    suite: str = "quick",
    seed: int = 0,
    out: str | Path = "bench.json",
    progress: bool = False,
) -> Results:
    """Run methods on subjects whose truth is written down, and score what they answer.

    Args:
        methods: names in `METHODS`; by default those of the suite.
        suite: one of `SUITES`.
        seed: draws the subjects: those of another seed are others, which nobody has seen.
        out: the file of results, which is gone on with.
        progress: say on standard error how long it takes, and how much is left; Ctrl-C keeps what is done.

    Raises:
        ValueError: if there is no such method or suite, or `out` holds something else.
    """
    out = Path(out)
    results = Results.at(out)
    with shown(progress):
        for name, number, missing in steps(pieces(results, methods, suite, seed), "asking methods", keep=True):
            with untold():
                for method in missing:
                    results.rows.extend(_rows(method, name, number))
                    results.done.append(f"{method}/{name}/{number}")
            results.save(out)
    return results


def pieces(results: Results, methods: Sequence[str], suite: str, seed: int) -> list[Piece]:
    """What is to be done that is not done yet. Raises ValueError as `bench`."""
    chosen = lookup(SUITES, suite, "suite")
    check_seed(seed)
    for method in methods:
        lookup(METHODS, method, "method")
    names = list(dict.fromkeys(methods or chosen.methods or METHODS))
    seeds = range(seed * PER_SUITE, seed * PER_SUITE + chosen.seeds)
    done = set(results.done)
    each = ((name, number) for number in seeds for name in chosen.subjects or SUBJECTS)
    found = [(name, number, [m for m in names if f"{m}/{name}/{number}" not in done]) for name, number in each]
    return [piece for piece in found if piece[2]]


def estimate(left: Sequence[Piece]) -> str:
    """How much is to be done, and about how long it takes, in words."""
    seconds = sum(POSING + sum(SLOW.get(method, OTHERS) for method in missing) for _, _, missing in left)
    methods = {method for _, _, missing in left for method in missing}
    return f"{len(methods)} methods on {len(left)} subjects, about {duration(seconds)} on one core"


def _rows(method: str, name: str, seed: int) -> Iterator[Row]:
    """The rows of a method about a subject, and about what is made of it so that nothing is true.

    Each is an answer, scored, with what it took; what it does not answer has none.
    """
    ask = METHODS[method]
    for null in ("", *NULLS, LABELS):
        for part in posed(name, seed, null):
            asks, label = part.question.asks, part.question.label
            row = partial(Row, method=method, subject=name, seed=seed, null=null, asks=asks, label=label)
            try:
                with _cost(part.question.run.decoder.config.n_layers) as cost:
                    answer = ask(part.question)
                if answer is None:
                    continue
                values = score(part, answer, ask)
            except Exception as error:  # a stranger's method may raise anything, and the others go on
                yield row(failed=brief(f"{type(error).__name__}: {error}"))
                continue
            known = {key: float(f"{value:.6g}") for key, value in values.items() if not isnan(value)}
            yield row(values=known, **vars(cost))


@contextmanager
def _cost(n_layers: int) -> Iterator[SimpleNamespace]:
    """Count what runs within: passes through all layers and their sequences, seconds, and memory at its highest.

    Counted is the attention of each layer, which runs whether a model is hooked or not, and whether to its end or not.
    """
    cost = SimpleNamespace(passes=0.0, sequences=0.0, seconds=0.0, memory=None)

    def count(module: Any, given: Any, out: Any) -> None:
        if isinstance(module, MultiHeadAttention | ExplicitAttentionBridge):
            cost.passes += 1 / n_layers
            cost.sequences += len(out[0] if isinstance(out, tuple) else out) / n_layers

    before, handle, start = _memory("VmRSS", reset=True), register_module_forward_hook(count), time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = round(time.perf_counter() - start, 4)
        cost.passes, cost.sequences = round(cost.passes, 2), round(cost.sequences, 2)
        handle.remove()
        most = _memory("VmHWM")
        cost.memory = None if most is None or before is None else max(0, most - before)


def _memory(what: str, *, reset: bool = False) -> int | None:
    """Bytes of memory of this process, now or at its highest since the last reset; None where no Linux tells."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))
    except (OSError, StopIteration):
        return None
