"""Judged claims: how often in a word, beyond controls or not, needed or not; of uninformed models nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from workbench.inspection import Inspected, claims, inspect_run
from workbench.inspection.judged import judgements, strongest_control
from workbench.judgement.against_controls import Against
from workbench.judgement.claim import JudgedClaim, Judgement, Need, Often
from workbench.judgement.judge import judge
from workbench.judgement.words.claims import needing
from workbench.measurement import Measurement
from workbench.measurement.draws import over_draws
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
    each = [rates([value] * 64) for value in values]
    return Measurement.stack(each, "draw", range(len(each)))


def test(claimed: tuple[float, float], elsewhere: float, n: int = 64) -> Measurement:
    """A causal test with these shares of as claimed and changed, and of changed by the edit elsewhere."""
    ones = [[*claimed], [0.0, elsewhere]]
    values = np.array([[np.arange(n) < round(share * n) for share in row] for row in ones]).astype(float)
    coords = {"edit": ["claimed", "elsewhere"], "outcome": ["as claimed", "changed"], "example": range(n)}
    return Measurement("A test", values, ("edit", "outcome", "example"), coords, "share").mean()


test.__test__ = False  # type: ignore[attr-defined]  # a helper


def fresh(*shares: float, n: int = 64) -> Measurement:
    """The causal test of uninformed models, each with these shares of n right answers changed and as claimed."""
    return Measurement.stack([test((share, share), 0.0, n) for share in shares], "draw", range(len(shares)))


def against(own: list[float], draws: list[float], **controls: list[float]) -> Against | None:
    nulls = {null: rates(values) for null, values in controls.items()}
    each = drawn(draws)
    means = {**nulls, "untrained": over_draws(each)}
    (found,) = judge("minimum", rates(own), means, {"untrained": each})
    return found.against


RIGHT, HALF, NEVER = [1.0] * 60, [1.0, 0.0] * 30, [0.0] * 60


def test_a_claim_is_beyond_its_controls_where_it_exceeds_every_one_of_them() -> None:
    assert against(RIGHT, [0.1, 0.2, 0.15, 0.12], mismatched=NEVER) is Against.BEYOND
    assert against(RIGHT, [0.1, 0.2, 0.15, 0.12], mismatched=RIGHT) is Against.NO_MORE
    assert against(HALF, [0.15, 0.74, 0.3, 0.4], mismatched=NEVER) is Against.NO_MORE  # three of four are below .5
    assert against(RIGHT, [1.0, 1.0, 1.0, 1.0], mismatched=NEVER) is Against.NO_MORE  # any model does it
    assert against([1.0] * 4, [0.0, 0.0, 0.0, 0.0]) is Against.TOO_FEW
    (found,) = judge("minimum", rates(RIGHT), {}, {})
    assert found.against is None and found.strongest is None and found.need is Need.UNTESTED


@pytest.mark.parametrize(
    ("share", "often"),
    [
        (1.0, Often.ALWAYS),
        (0.9, Often.MOSTLY),
        (0.5, Often.SOMETIMES),
        (0.24, Often.RARELY),
        (0.02, Often.NOT_FOUND),
        (0.0, Often.NOT_FOUND),
    ],
)
def test_how_often_is_the_first_word_whatever_the_controls(share: float, often: Often) -> None:
    own = [1.0] * round(200 * share) + [0.0] * round(200 * (1 - share))
    (found,) = judge("minimum", rates(own), {"mismatched": rates([0.0] * 200)}, {})
    assert found.often is often and found.found is (often is not Often.NOT_FOUND)
    assert found.tells is found.beyond and (found.found or not found.beyond)


def test_the_nearest_control_is_the_one_that_is_exceeded_least_clearly_at_each_place() -> None:
    own = rates({"a": RIGHT, "b": RIGHT})
    nulls = {"mismatched": rates({"a": HALF, "b": NEVER}), "random_graph": rates({"a": NEVER, "b": HALF})}
    nearest = [one.strongest for one in judge("minimum", own, nulls, {})]
    assert [one.against for one in nearest if one] == ["mismatched", "random_graph"]
    assert [one.rate for one in nearest if one] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("own", "nulls", "need"),
    [
        ((0.9, 0.95, 0.02), fresh(0.0, 0.1, 0.05, 0.0), Need.AS_CLAIMED),
        ((0.9, 0.95, 0.02), None, Need.NOT_COMPARED),  # no uninformed model was edited: it was called needed
        ((0.9, 0.95, 0.02), fresh(0.0, 0.0, n=2), Need.NOT_COMPARED),  # four right answers in all: likewise
        ((0.9, 0.95, 0.02), fresh(0.7, 1.0, 0.9, 0.8), Need.AS_NULLS),  # straight to the logits in any model
        ((0.0, 0.95, 0.02), fresh(0.0, 0.1, 0.05, 0.0), Need.LOST),
        ((0.9, 0.95, 0.9), fresh(0.0, 0.0, 0.0, 0.0), Need.AS_ELSEWHERE),
        ((0.0, 0.01, 0.0), fresh(0.0, 0.0, 0.0, 0.0), Need.NOT_NEEDED),
        ((0.0, 0.12, 0.0), fresh(0.0, 0.0, 0.0, 0.0), Need.NOT_SETTLED),
    ],
)
def test_an_edit_shows_need_where_it_does_more_than_elsewhere_and_than_in_uninformed_models(
    own: tuple[float, float, float], nulls: Measurement | None, need: Need
) -> None:
    as_claimed, changed, elsewhere = own
    kinds = {} if nulls is None else {"untrained": nulls}
    (found,) = judge("minimum", rates(RIGHT), {}, {}, test((as_claimed, changed), elsewhere), kinds)
    assert found.need is need and found.test is not None and found.test.claimed.n == 64
    assert Judgement.model_validate_json(found.model_dump_json()) == found


def test_too_few_right_answers_are_said_to_be_so() -> None:
    (found,) = judge("minimum", rates(RIGHT), {}, {}, test((1.0, 1.0), 0.0, n=4), {"untrained": fresh(0.0, 0.0)})
    assert found.need is Need.TOO_FEW and found.test is None


def test_what_uninformed_models_did_is_told_in_counts_and_never_as_a_limit() -> None:
    """It was "in untrained models at most 100 % as claimed", a prediction limit that nobody had reached."""
    nulls = {"untrained": fresh(0.25, 0.25, 0.0, n=8), "shuffled": fresh(0.0, 0.0, n=6)}
    (found,) = judge("minimum", rates(RIGHT), {}, {}, test((0.9, 0.95), 0.02), nulls)
    said = needing([found])
    assert "re-initialised models, 4 of 24 change as claimed in 3 models" in said
    assert "models of shuffled weights, 0 of 12 change as claimed in 2 models" in said
    assert "at most" not in said and "up to" not in said


def test_an_edit_that_changes_nothing_where_another_does_shows_no_lack_of_need() -> None:
    own = test((0.0, 0.0), 0.0)
    residual = test((0.9, 1.0), 0.0).select(edit="claimed")
    with_other = Measurement.stack(
        [own.select(edit="claimed"), residual, own.select(edit="elsewhere")],
        "edit",
        ["claimed", "residual", "elsewhere"],
    )
    (found,) = judge("minimum", rates(RIGHT), {}, {}, with_other, {"untrained": fresh(0.0, 0.0, 0.0)})
    assert found.need is Need.IDLE and "residual, 64 of 64 change" in needing([found])


def test_one_test_of_several_places_is_told_where_the_claim_holds_most() -> None:
    own = rates({"blocks.0.hook_resid_mid": NEVER, "blocks.1.hook_resid_mid": RIGHT})
    places = judge("minimum", own, {}, {}, test((0.9, 0.95), 0.02), {"untrained": fresh(0.0, 0.1, 0.05, 0.0)})
    assert [one.need for one in places] == [Need.UNTESTED, Need.AS_CLAIMED]


@pytest.mark.parametrize("n", [1, 2, 4, 8, 32, 128])
def test_a_verdict_does_not_flip_with_the_number_of_null_answers(n: int) -> None:
    """The same effect beside nulls of one rate: too few, then needed, and needed from there on."""
    nulls = {"untrained": fresh(0.25, 0.5, 0.25, 0.25, n=n), "shuffled": fresh(0.0, 0.25, 0.0, 0.25, n=n)}
    (found,) = judge("minimum", rates(RIGHT), {}, {}, test((0.95, 0.95), 0.0), nulls)
    assert found.need is (Need.NOT_COMPARED if n < 2 else Need.AS_CLAIMED), n


def test_places_with_the_same_result_stand_together() -> None:
    own = rates({"a": RIGHT, "b": NEVER, "c": RIGHT})
    found = JudgedClaim(
        places=tuple(judge("minimum", own, {"mismatched": rates({"a": NEVER, "b": NEVER, "c": NEVER})}, {}))
    )
    assert [[one.place["point"] for one in group] for group in found.alike] == [["a", "c"], ["b"]]


def test_draws_are_shown_by_their_mean_and_range() -> None:
    found = over_draws(drawn([0.15, 0.74, 0.31]))
    assert found.settings["draws"] == 3 and found.dims == ()
    assert (float(found.low), float(found.high)) == pytest.approx((0.15, 0.74))  # type: ignore[arg-type]
    assert float(found.values) == pytest.approx(0.4)


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    run = compile_run("sorter", tmp_path_factory.mktemp("verdict") / "sorter", {"q": 9, "max_length": 10})
    return inspect_run(run, n=16, seed=0, only=["copy", "minimum", "successor"])


def test_untrained_is_several_models_not_one(sorter: Inspected) -> None:
    each = sorter["minimum"].controls["untrained"].draws
    assert each.dims == ("draw",) and len(each.values) == 8 and len(set(each.values.tolist())) > 3
    shown = sorter["minimum"].controls["untrained"].mean
    assert (shown.low, shown.high) == (each.values.min(), each.values.max())
    nulls = sorter["minimum"].causal.nulls
    assert list(nulls) == ["untrained", "shuffled"]
    assert {one.dims for one in nulls.values()} == {("draw", "edit", "outcome")}


def test_a_claim_that_re_initialised_models_fulfil_is_no_more_than_a_control(sorter: Inspected) -> None:
    """The compiled sorter leaves copying to the residual stream, as any model does."""
    assert {one.against for one in judgements(sorter, "copy")} == {Against.NO_MORE}
    assert [one.against for one in judgements(sorter, "minimum")] == [Against.BEYOND]
    nearest = strongest_control(sorter, "minimum")
    assert nearest.labels is not None and str(nearest.labels) in ("untrained", "mismatched")
    ((rate, control),) = claims.beside(sorter, names=["copy"])
    assert rate.dims == control.dims and (control.values > 0.9).any()


def test_the_summary_has_every_claim_beside_its_nearest_control(tmp_path: Path) -> None:
    compile_run("chaser", tmp_path / "chaser", {"n": 16})
    compile_run("sorter", tmp_path / "sorter", {"q": 9, "max_length": 10})
    text = inspect([tmp_path / "chaser", tmp_path / "sorter"], out=tmp_path / "report", n=8).says.splitlines()
    named = ("Copy before", "Minimum at", "Identity + successor", "Identity removed", "Chain following")
    said = "holds beyond its controls in"  # a sentence above the table
    rows = [number for number, line in enumerate(text) if line.startswith(named) and said not in line]
    assert len(rows) >= 6 + 1 + 1 + 1 + 3
    for number in rows:
        assert text[number + 1].startswith("  nearest control"), text[number]
        assert any(null in text[number + 1] for null in ("re-initialised", "shuffled truth", "random graph"))
    said = "\n".join(text[text.index(next(line for line in text if line.startswith("each claim: how often"))) :])
    assert (
        "Copy before the delimiter, " in said
        and "no more than under a control (nearest: re-initialised models, " in said
    )
    assert (
        "the smallest set of heads whose edit changes nearly as many answers as in every head is layer 0, head 0"
        in said
    )
