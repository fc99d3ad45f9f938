"""A claim judged from its measurements: how often it holds, beside its controls, and whether answers need it.

A claim that holds as often in a re-initialised model tells nothing of this one, however often it holds. An edit that
changes answers as claimed shows that they depend on what was edited; where the same edit does the same in uninformed
models, it tells nothing either. Each comparison is `against_controls.compare_counts`, on counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from workbench.judgement.against_controls import FEWEST, WORST_FIRST, Against, Compared, Tally, compare_counts
from workbench.judgement.claim import ELSEWHERE, EditCounts, Judgement, Need, Often, Test
from workbench.measurement import Measurement
from workbench.measurement.draws import DRAW
from workbench.mechanisms.heads import LEAST_LOST

CLAIMED = "claimed"  # the edit of what is claimed
AS_CLAIMED, CHANGED = "as claimed", "changed"  # outcomes of a causal test
ALIKE = "hop"  # the dim whose places are alike
BESIDE_NULLS = {Against.NO_MORE: Need.AS_NULLS, Against.NOT_CLEAR: Need.NOT_SETTLED, Against.TOO_FEW: Need.NOT_COMPARED}
"""What is said where the edit does not do more than in uninformed models."""
CLEAREST_FIRST = (Need.AS_CLAIMED, Need.LOST, Need.NOT_COMPARED, Need.AS_NULLS, Need.AS_ELSEWHERE, Need.NOT_SETTLED)
"""Of two outcomes, the one that says more is told."""


def judge(
    claim: str,
    rate: Measurement,
    controls: Mapping[str, Measurement],
    draws: Mapping[str, Measurement],
    causal: Measurement | None = None,
    nulls: Mapping[str, Measurement] | None = None,
    *,
    of_heads: bool = False,
) -> list[Judgement]:
    """A claim judged at each place where it is read.

    Args:
        claim: its name.
        rate: how often it holds, averaged over examples, of the head in focus.
        controls: control -> how often it holds under it, with the dims of `rate` or fewer.
        draws: of controls that are several models, each of these: the dim `draw`, then those of `rate`.
        causal: the causal test averaged over examples: dims `edit`, `outcome`, and perhaps some of `rate`'s.
        nulls: kind of uninformed model -> the causal test of each: the dim `draw` first.
        of_heads: whether the claim is about single heads.
    """
    places = [
        {dim: rate.coords[dim][i] for dim, i in zip(rate.dims, index, strict=True)}
        for index in np.ndindex(*rate.values.shape)
    ]
    told_at = _test_place(rate, causal, places)
    judged = []
    for place in places:
        own = rate.select(**place)
        test = _at(causal, place) if causal is not None and (told_at is None or place == told_at) else None
        need, numbers = _need(test, nulls or {}, place, 1 if told_at is not None else len(places))
        controls_there = beside_each_control(own, controls, draws, place, len(places))
        about = {"claim": claim, "title": rate.name, "place": place, "of_heads": of_heads}
        n = 0 if own.n is None else int(own.n)
        often = Often.of(float(own.values)) if n >= FEWEST else Often.UNKNOWN
        rates = {"rate": float(own.values), "low": _end(own.low), "high": _end(own.high), "n": n, "often": often}
        judged.append(Judgement(**rates, **about, controls=controls_there, need=need, test=numbers))
    return judged


def judge_seeds(rate: Measurement, of_each: Sequence[Sequence[Judgement]]) -> list[Judgement]:
    """The judgements of several seeds together: the mean rate over seeds, and what is said of each of them.

    Args:
        rate: the mean over seeds at every place.
        of_each: the judgements of each seed, at the same places.
    """
    together = []
    for seeds in zip(*of_each, strict=True):
        own, needs = rate.select(**seeds[0].place), {seed.need for seed in seeds} - {Need.UNTESTED} or {Need.UNTESTED}
        need = Need.LOST if needs == {Need.AS_CLAIMED, Need.LOST} else Need.NOT_SETTLED
        need = next(iter(needs)) if len(needs) == 1 else need
        rates = {"rate": float(own.values), "low": _end(own.low), "high": _end(own.high), "n": len(seeds)}
        known = any(seed.often is not Often.UNKNOWN for seed in seeds)
        own_often = Often.of(float(own.values)) if known else Often.UNKNOWN
        update = {**rates, "often": own_often, "need": need, "controls": (), "test": None, "seeds": tuple(seeds)}
        together.append(seeds[0].model_copy(update=update))
    return together


def beside_each_control(
    own: Measurement,
    controls: Mapping[str, Measurement],
    draws: Mapping[str, Measurement],
    place: Mapping[str, Any] | None = None,
    places: int = 1,
) -> tuple[Compared, ...]:
    """A rate, or the mean of shares such as attention mass, held against each control that has one there.

    Args:
        own: without dims.
        controls, draws: as `judge` has them.
        place: dim -> label, of where `own` is read.
        places: at how many places the same is asked.
    """
    place = place or {}
    return tuple(
        _against_models(_tally(own), draws[null], null, place, places)
        if null in draws
        else compare_counts(_tally(own), [_tally(control)], null, models=False, places=places)
        for null, m in controls.items()
        if (control := _at(m, place)) is not None and not np.isnan(control.values)
    )


def _against_models(own: Tally, draws: Measurement, null: str, place: Mapping[str, Any], places: int) -> Compared:
    """A count held against null models at a place.

    Hops are alike: each null model counts at the hop where it is most like an informed one, the least likely at the
    rate of all together. A result at any hop held against these makes up for how many there are, as the nulls had as
    many chances (a permutation test's maximum: Westfall and Young 1993). Bonferroni would ask of eight null models
    without a hit what only more models could tell.
    """
    at = _at(draws, place)
    tallies = [] if at is None else _tallies(at)
    if ALIKE not in draws.dims:
        return compare_counts(own, tallies, null, places=places)
    others = draws.select(**{dim: label for dim, label in place.items() if dim in draws.dims and dim != ALIKE})
    by_hop = [_tallies(others.select(**{ALIKE: hop})) for hop in draws.coords[ALIKE]]
    every = [tally for hop in by_hop for tally in hop]
    rate = sum(tally.hits for tally in every) / max(1, sum(tally.n for tally in every))

    def likely(tally: Tally) -> tuple[float, int]:
        return float(stats.binom.sf(np.ceil(tally.hits) - 1, tally.n, rate)) if tally.n else 1.0, -tally.n

    searched = [min(of_model, key=likely) for of_model in zip(*by_hop, strict=True)]
    return compare_counts(own, tallies, null, searched=searched)


def _need(
    test: Measurement | None, nulls: Mapping[str, Measurement], place: Mapping[str, Any], places: int
) -> tuple[Need, Test | None]:
    """Whether answers need what is claimed by a causal test at one place, with its numbers.

    Answers that change as claimed are among those that change, so the two outcomes err together and do not share the
    rule's error: simulated with nulls of the table's shapes, either is wrongly beyond in at most 6 % of cases.
    """
    if test is None:
        return Need.UNTESTED, None
    edits = {}
    for edit in test.coords["edit"]:
        of_changed = test.select(edit=edit, outcome=CHANGED)
        changed, as_claimed = _tally(of_changed), _tally(test.select(edit=edit, outcome=AS_CLAIMED))
        numbers = {"n": changed.n, "changed": changed.hits, "as_claimed": as_claimed.hits}
        edits[edit] = EditCounts(edit=edit, **numbers, low=_end(of_changed.low), high=_end(of_changed.high))
    claimed, others = edits[CLAIMED], tuple(edited for edit, edited in edits.items() if edit != CLAIMED)
    if claimed.n < FEWEST:
        return Need.TOO_FEW, None
    elsewhere = Tally(edits[ELSEWHERE].changed, edits[ELSEWHERE].n) if ELSEWHERE in edits else Tally(0, 0)
    by_outcome = {
        outcome: _outcome(test, nulls, outcome, elsewhere, place, places) for outcome in (AS_CLAIMED, CHANGED)
    }
    decided_by = min(by_outcome, key=lambda outcome: CLEAREST_FIRST.index(by_outcome[outcome][0]))
    need, beside = by_outcome[decided_by]
    if need is Need.NOT_SETTLED and claimed.high < LEAST_LOST:
        need = (
            Need.IDLE
            if any(edited.low > LEAST_LOST for edited in others if edited.edit != ELSEWHERE)
            else Need.NOT_NEEDED
        )
    where = str(test.settings.get("edited", ""))
    return need, Test(where=where, claimed=claimed, others=others, decided_by=decided_by, nulls=beside)


def _outcome(
    test: Measurement,
    nulls: Mapping[str, Measurement],
    outcome: str,
    elsewhere: Tally,
    place: Mapping[str, Any],
    places: int,
) -> tuple[Need, tuple[Compared, ...]]:
    """What one outcome of the claimed edit says, and that outcome beside each kind of uninformed model.

    Each kind with enough right answers has to be exceeded; where none has, all together.
    """
    part = test.select(edit=CLAIMED, outcome=outcome)
    own = _tally(part)
    of_kind = {kind: m.select(edit=CLAIMED, outcome=outcome) for kind, m in nulls.items()}
    beside = tuple(_against_models(own, m, kind, place, places) for kind, m in of_kind.items())
    if _end(part.low) <= LEAST_LOST:
        return Need.NOT_SETTLED, beside
    against = compare_counts(own, [elsewhere], ELSEWHERE, models=False, places=places).result
    if elsewhere.n and against is not Against.BEYOND:
        return (Need.AS_ELSEWHERE if against is Against.NO_MORE else BESIDE_NULLS[against]), beside
    decisive: list[Against] = [compared.result for compared in beside if compared.result is not Against.TOO_FEW]
    if not decisive and of_kind:
        pooled = Measurement.join(list(of_kind.values()), DRAW)
        decisive = [_against_models(own, pooled, "uninformed", place, places).result]
    result = next((result for result in WORST_FIRST if result in decisive), Against.TOO_FEW)
    needed = Need.AS_CLAIMED if outcome == AS_CLAIMED else Need.LOST
    return (needed if result is Against.BEYOND else BESIDE_NULLS[result]), beside


def _test_place(rate: Measurement, causal: Measurement | None, places: Sequence[dict[str, Any]]) -> dict | None:
    """The place at which a test without places is told: where the claim holds most; None of a test at each place."""
    if causal is None or not rate.dims or any(dim in causal.dims for dim in rate.dims):
        return None
    enough = ~np.isnan(rate.values) & (np.asarray(0 if rate.n is None else rate.n) >= FEWEST)
    return places[int(np.where(enough, rate.values, -1.0).argmax())]


def _tally(m: Measurement) -> Tally:
    n = 0 if m.n is None else int(m.n)
    return Tally(float(m.values) * n if n else 0.0, n)


def _tallies(draws: Measurement) -> list[Tally]:
    assert draws.dims == (DRAW,) and draws.n is not None
    return [Tally(float(v) * int(n) if n else 0.0, int(n)) for v, n in zip(draws.values, draws.n, strict=True)]


def _end(end: np.ndarray | None) -> float:
    return float("nan") if end is None else float(end)


def _at(m: Measurement, place: Mapping[str, Any]) -> Measurement | None:
    """The measurement at one place, in the dims that it has; None where it does not have the label."""
    where = {dim: label for dim, label in place.items() if dim in m.dims}
    if any(label not in m.coords[dim] for dim, label in where.items()):
        return None
    return m.select(**where)
