"""What is said of a claim: beyond its controls or not, needed or not, and of models that know nothing neither."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from workbench.inspection import Inspected, claims, inspect_run
from workbench.measurement import Measurement
from workbench.measurement.draws import limit, over_draws
from workbench.mechanisms.verdict import Holds, Needed, strongest_control, verdicts
from workbench.report import inspect
from workbench.runs.compiled import compile_run


def rates(values: Mapping[str, list[float]] | list[float]) -> Measurement:
    """Examples at one place, or at several points, averaged."""
    if isinstance(values, list):
        return _shares(np.array(values), ()).mean()
    return _shares(np.array(list(values.values())), ("point",), {"point": list(values)}).mean()


def _shares(values: np.ndarray, dims: tuple[str, ...], coords: dict[str, list[str]] | None = None) -> Measurement:
    coords = {**(coords or {}), "example": [str(i) for i in range(values.shape[-1])]}
    return Measurement("A claim", values.astype(float), (*dims, "example"), coords, "share")


def drawn(values: list[float]) -> Measurement:
    """Models with fresh weights, each with one number."""
    each = [rates([value, value, value, value, value]) for value in values]
    return Measurement.stack(each, "draw", range(len(each)))


def test(claimed: tuple[float, float], elsewhere: float, n: int = 64) -> Measurement:
    """A causal test with these shares of as claimed and changed, and of changed by the edit elsewhere."""
    ones = [[*claimed], [0.0, elsewhere]]
    values = np.array([[np.arange(n) < round(share * n) for share in row] for row in ones]).astype(float)
    coords = {"edit": ["claimed", "elsewhere"], "outcome": ["as claimed", "changed"], "example": range(n)}
    return Measurement("A test", values, ("edit", "outcome", "example"), coords, "share").mean()


test.__test__ = False  # type: ignore[attr-defined]  # a helper


def fresh(*shares: float) -> Measurement:
    return Measurement.stack([test((share, share), 0.0) for share in shares], "draw", range(len(shares)))


def holds(own: list[float], draws: list[float], **controls: list[float]) -> Holds:
    nulls = {null: rates(values) for null, values in controls.items()}
    each = drawn(draws)
    (found,) = verdicts(rates(own), {**nulls, "untrained": over_draws(each)}, each)
    return found.holds


RIGHT, HALF, NEVER = [1.0] * 60, [1.0, 0.0] * 30, [0.0] * 60


def test_a_claim_holds_beyond_controls_where_it_exceeds_every_one_of_them() -> None:
    assert holds(RIGHT, [0.1, 0.2, 0.15, 0.12], mismatched=NEVER) is Holds.BEYOND
    assert holds(RIGHT, [0.1, 0.2, 0.15, 0.12], mismatched=RIGHT) is Holds.NO_MORE
    assert holds(HALF, [0.15, 0.74, 0.3, 0.4], mismatched=NEVER) is Holds.NO_MORE  # one draw alone is .15
    assert holds(RIGHT, [1.0, 1.0, 1.0, 1.0], mismatched=NEVER) is Holds.NO_MORE  # any model does it
    assert holds([1.0] * 4, [0.0, 0.0, 0.0, 0.0]) is Holds.TOO_FEW
    (found,) = verdicts(rates(RIGHT), {})
    assert found.holds is Holds.UNCONTROLLED and found.strongest is None and found.needed is Needed.UNTESTED


def test_the_strongest_control_is_the_one_that_is_hardest_to_exceed_at_each_place() -> None:
    own = rates({"a": RIGHT, "b": RIGHT})
    nulls = {"mismatched": rates({"a": HALF, "b": NEVER}), "random_graph": rates({"a": NEVER, "b": HALF})}
    strongest = strongest_control(own, verdicts(own, nulls))
    assert strongest.labels is not None and strongest.labels.tolist() == ["mismatched", "random_graph"]
    assert strongest.values.tolist() == [0.5, 0.5] and strongest.dims == ("point",)


@pytest.mark.parametrize(
    ("own", "nulls", "needed"),
    [
        (test((0.9, 0.95), 0.02), fresh(0.0, 0.1, 0.05, 0.0), Needed.AS_CLAIMED),
        (test((0.9, 0.95), 0.02), None, Needed.AS_CLAIMED),
        (test((0.9, 0.95), 0.02), fresh(0.7, 1.0, 0.9, 0.8), Needed.AS_ANY),  # straight to the logits in any model
        (test((0.0, 0.95), 0.02), fresh(0.0, 0.1, 0.05, 0.0), Needed.LOST),
        (test((0.9, 0.95), 0.9), fresh(0.0, 0.0, 0.0, 0.0), Needed.NOT_TOLD),  # as much elsewhere
        (test((0.0, 0.01), 0.0), fresh(0.0, 0.0, 0.0, 0.0), Needed.NOT_NEEDED),
        (test((1.0, 1.0), 0.0, n=4), None, Needed.TOO_FEW),
    ],
)
def test_an_edit_shows_need_where_it_does_more_than_elsewhere_and_than_in_models_that_know_nothing(
    own: Measurement, nulls: Measurement | None, needed: Needed
) -> None:
    (found,) = verdicts(rates(RIGHT), {}, None, own, nulls)
    assert found.needed is needed and (found.tested is None) == (needed is Needed.TOO_FEW)
    if found.tested is not None:  # what models that know nothing do is told beside it
        in_nulls = found.tested.changed_in_nulls
        assert np.isnan(in_nulls) if nulls is None else 0 <= in_nulls <= 1
        assert needed is not Needed.AS_ANY or in_nulls >= found.tested.changed - 0.1


@pytest.mark.parametrize("places", [1, 7])
def test_a_further_model_exceeds_the_limit_at_some_place_in_at_most_one_of_twenty_cases(places: int) -> None:
    draw = np.random.default_rng(0)
    scores = draw.normal(0.4, 0.1, (1000, places, 9))  # eight draws, and a further model
    alarms = sum(any(place[-1] > limit(place[:-1], places) for place in case) for case in scores)
    assert 5 < alarms < 65  # of 1,000: 5 % and what chance adds


def test_draws_are_shown_by_their_mean_and_range() -> None:
    found = over_draws(drawn([0.15, 0.74, 0.31]))
    assert found.settings["draws"] == 3 and found.dims == ()
    assert (float(found.low), float(found.high)) == pytest.approx((0.15, 0.74))  # type: ignore[arg-type]
    assert float(found.values) == pytest.approx(0.4)
    assert np.isnan(limit(np.array([0.3]))) and limit(np.array([0.1, np.nan, 0.9])) > 0.9


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    run = compile_run("sorter", tmp_path_factory.mktemp("verdict") / "sorter", {"q": 9, "max_length": 10})
    return inspect_run(run, n=16, seed=0, only=["copy", "minimum", "successor"])


def test_untrained_is_several_models_not_one(sorter: Inspected) -> None:
    each = sorter["minimum"].controls["untrained"].draws
    assert each.dims == ("draw",) and len(each.values) == 8 and len(set(each.values.tolist())) > 3
    shown = sorter["minimum"].controls["untrained"].mean
    assert (shown.low, shown.high) == (each.values.min(), each.values.max())
    assert sorter["minimum"].causal.untrained.dims == ("draw", "edit", "outcome")


def test_a_claim_that_untrained_models_fulfil_tells_nothing(sorter: Inspected) -> None:
    """The compiled sorter leaves copying to the residual stream, as any model does."""
    assert {one.holds for one in claims.verdicts_on(sorter, "copy")} == {Holds.NO_MORE}
    assert [one.holds for one in claims.verdicts_on(sorter, "minimum")] == [Holds.BEYOND]
    ((rate, control),) = claims.beside(sorter, names=["copy"])
    assert rate.dims == control.dims and (control.values > 0.9).any()


def test_the_summary_has_every_claim_beside_its_strongest_control(tmp_path: Path) -> None:
    compile_run("chaser", tmp_path / "chaser", {"n": 16})
    compile_run("sorter", tmp_path / "sorter", {"q": 9, "max_length": 10})
    text = inspect([tmp_path / "chaser", tmp_path / "sorter"], out=tmp_path / "report", n=8).summary.splitlines()
    named = ("Copy before", "Minimum at", "Identity + successor", "Identity removed", "Chain following")
    rows = [number for number, line in enumerate(text) if line.startswith(named) and "each taken alone" not in line]
    assert len(rows) >= 6 + 1 + 1 + 1 + 3
    for number in rows:
        assert text[number + 1].startswith("  strongest control"), text[number]
        assert any(null in text[number + 1] for null in ("untrained", "shuffled truth", "random graph"))
    said = "\n".join(text[text.index(next(line for line in text if line.startswith("verdict on each claim"))) :])
    assert "Copy before the delimiter, " in said and "tells nothing: no more than a control" in said
    assert (
        "the smallest set of heads whose edit changes nearly as many answers as in every head is layer 0, head 0"
        in said
    )
