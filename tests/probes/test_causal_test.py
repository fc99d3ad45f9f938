"""Whether what is decoded is used: on models whose mechanism is written, and on a mark that nothing reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from workbench.judgement.against_controls import FEWEST_NULLS
from workbench.judgement.decodable import BASELINES
from workbench.judgement.used import CHANGED, FOLLOWED, NULL_KINDS, OUTCOMES
from workbench.judgement.words import probes as words
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.probes import Answer, Conclusion, Finding, Status, Use, Used, ask, causal_test
from workbench.probes.causal_result import measured
from workbench.probes.erase_steer_interchange import EDITS, Edited, as_large
from workbench.runs import Run
from workbench.runs.compiled import compile_run

MID = "blocks.0.hook_resid_mid"


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    root = tmp_path_factory.mktemp("compiled")
    return {
        "sorter": compile_run("sorter", root / "sorter", {"q": 9}),
        "turned": compile_run("sorter", root / "turned", {"q": 9, "rotate_seed": 0}),
        "chaser": compile_run("chaser", root / "chaser", {"n": 32, "k": 4}),
    }


@pytest.fixture(scope="module")
def answers(compiled: dict[str, Run]) -> dict[tuple[str, str], Answer]:
    """Every question of a compiled model whose answer is written in it."""
    quick: dict[str, Any] = {"controls": BASELINES}
    found = {}
    for model in ("sorter", "turned"):
        found[model, "minimum"] = ask(compiled[model], "minimum", n=512, **quick)
        found[model, "successor"] = ask(compiled[model], "successor", n=1536, null_draws=3, **quick)
    return {**found, ("chaser", "hops"): ask(compiled["chaser"], "hops", n=160, null_draws=3, **quick)}


WRITTEN = [
    ("sorter", "minimum", "minimum", MID),
    ("turned", "minimum", "minimum", MID),
    ("sorter", "successor", "successor", "blocks.1.hook_resid_mid"),
    ("turned", "successor", "successor", "blocks.1.hook_resid_mid"),
    ("chaser", "hops", "root", MID),
]


@pytest.mark.parametrize(("model", "preset", "label", "written"), WRITTEN)
def test_what_is_written_in_is_found_where_it_is_written_and_is_used(
    answers: dict[tuple[str, str], Answer], model: str, preset: str, label: str, written: str
) -> None:
    answer = answers[model, preset]
    (finding,) = [finding for finding in answer.findings if finding.label == label]
    assert finding.point == written and finding.status is Status.USED, words.finding(finding)
    found = answer.measured.select(label=label)
    points = list(found.coords["point"])
    for point in points:
        own = found.select(point=point, condition="trained")
        token = found.select(point=point, condition="current token")
        if points.index(point) < points.index(written):
            assert own.low is not None and token.high is not None
            assert own.low <= token.high and own.values <= token.values + 0.02, point
        else:
            assert own.values >= 0.99, point
    assert list(finding.tests) == points[points.index(written) :], "every point at which it can be read is tested"
    assert all(test.points == len(finding.tests) for test in finding.tests.values())


@pytest.mark.parametrize("preset", ["minimum", "successor"])
def test_a_turned_basis_changes_no_verdict(answers: dict[tuple[str, str], Answer], preset: str) -> None:
    plain, turned = answers["sorter", preset].findings, answers["turned", preset].findings
    for one, other in zip(plain, turned, strict=True):
        assert (one.label, one.point, one.status) == (other.label, other.point, other.status)
        assert one.decodable.worth is other.decodable.worth


def test_every_edit_beside_is_as_large_as_the_labels_own(answers: dict[tuple[str, str], Answer]) -> None:
    answer = answers["sorter", "successor"]
    (use,) = [answer.use(finding) for finding in answer.findings if finding.label == "successor"]
    assert use is not None
    sizes = use.sizes.select(size="as edited")
    own, same, other = sizes.values
    assert other == pytest.approx(own, rel=1e-4) and same <= own * 1.0001
    drawn = use.sizes.select(size="before scaling").values
    assert drawn[0] == own and drawn[1] < same


@pytest.mark.slow
def test_a_verdict_states_the_edit_beside_its_largest_control(answers: dict[tuple[str, str], Answer]) -> None:
    answer = answers["sorter", "successor"]
    for use in filter(None, map(answer.use, answer.findings)):
        if use.untested is not None:
            continue
        said = use.verdict()
        stated = [(percent(own), percent(np.nanmax(controls))) for own, *controls in use.effect.values.T]
        assert any(f" {own} of" in said and f"control edits at most {most}" in said for own, most in stated), said


def test_as_large_as_is_row_by_row_and_nothing_stays_nothing() -> None:
    change = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-6, 0.0]])
    wanted = torch.tensor([[0.0, 10.0], [1.0, 0.0], [1.0, 0.0]])
    assert as_large(change, wanted).tolist() == [[6.0, 8.0], [0.0, 0.0], [pytest.approx(1.0), 0.0]]
    assert as_large(change, wanted, 100.0)[2].tolist() == [pytest.approx(1e-4), 0.0]


def test_few_sequences_give_no_verdict(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=4, judged={}).values()
    assert (
        use.judged.conclusion is Conclusion.TOO_FEW and use.judged.used is None and " of at least 5)" in use.verdict()
    )
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=24, judged={}).values()
    assert use.judged.used is True


def test_used_of_what_cannot_be_read_there_says_so(compiled: dict[str, Run]) -> None:
    """The root cannot be read off a chaser's embedding; what is changed there is the tokens, which it needs."""
    point = "blocks.0.hook_resid_pre"
    (use,) = causal_test(compiled["chaser"], "position", point=point, n=64, judged={}, null_draws=2).values()
    assert "can be read here" not in use.verdict(), "nothing is known of it"
    (use,) = causal_test(compiled["chaser"], "root", point=point, n=64, null_draws=2).values()
    assert use.untested or "a probe does not show that it can be read here" in use.verdict()
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=64, null_draws=FEWEST_NULLS).values()
    assert use.judged.used and use.verdict().endswith("; the label is decodable here")


def test_nothing_is_called_used_that_no_uninformed_model_was_held_against(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=64, null_draws=0, judged={}).values()
    assert use.judged.conclusion is Conclusion.NOT_COMPARED and use.judged.used is None
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=64, judged={}).values()
    assert use.judged.conclusion is Conclusion.USED and use.nulls is not None and use.nulls.values.shape == (2, 5, 1, 3)
    as_much = replace(use, nulls=replace(use.nulls, values=np.ones_like(use.nulls.values)))
    assert as_much.judged.conclusion is Conclusion.LIKE_NULLS
    assert "re-initialised or shuffled models do nearly as much" in as_much.verdict()


def of_excess(excess: float, spread: float, points: int = 1, nulls: tuple[float, ...] = (0.0,) * 10) -> Use:
    """A causal test with this excess over either edit beside it, of 100 sequences, and these leads of null models."""
    half = np.linspace(-1, 1, 100)
    values = np.zeros((3, 3, 100))
    values[0] = excess + spread * half
    settings = {"label": "root", "model": "none", "point": MID, "place": "labelled", "how": "interchange"}
    use = measured(Edited(values, np.ones((3, 2, 100))), EDITS["interchange"], 1, 1, settings)
    leads = np.zeros((2, len(nulls), points, 3))
    leads[:, :, -1, -1] = nulls
    coords = {"kind": NULL_KINDS, "null": range(len(nulls)), "point": range(points), "outcome": OUTCOMES}
    n = np.full(leads.shape, 256)
    return replace(
        use, nulls=Measurement("", leads, ("kind", "null", "point", "outcome"), coords, "share", n=n), points=points
    )


def test_the_low_end_of_the_excess_has_to_be_a_point_corrected_for_all_that_was_looked_at() -> None:
    """Of 100 sequences, spread evenly by ±0.05, the interval is ±0.006 wide, and ±0.007 for three outcomes."""
    assert of_excess(0.03, 0.05).judged.outcomes[0].beyond_controls
    assert not of_excess(0.015, 0.05).judged.outcomes[0].beyond_controls, "its mean is above a point, its low end not"
    assert of_excess(0.018, 0.05).judged.outcomes[0].beyond_controls
    assert not of_excess(0.018, 0.05, points=9).judged.outcomes[0].beyond_controls, "the best of nine is easily so good"


def test_a_lead_is_held_against_the_largest_of_each_null_model_by_any_outcome_at_any_point() -> None:
    """The null models lead at the last point by the last outcome alone; the run by all, at the first."""
    leads = (0.0, 0.02, 0.05, 0.1, 0.2)
    assert of_excess(0.8, 0.05, points=4, nulls=leads).judged.conclusion is Conclusion.USED
    like = of_excess(0.2, 0.05, points=4, nulls=leads).judged
    assert like.conclusion is Conclusion.LIKE_NULLS
    assert [null.most for outcome in like.outcomes for null in outcome.nulls] == [0.2] * 6


@pytest.mark.parametrize("nulls", [(0.0,), (0.0, 0.0)])
def test_few_null_models_are_not_compared_rather_than_exceeded_or_not(nulls: tuple[float, ...]) -> None:
    assert of_excess(0.3, 0.05, nulls=nulls).judged.conclusion is Conclusion.NOT_COMPARED


@pytest.mark.parametrize("points", [1, 3, 7])
@pytest.mark.parametrize(("a", "b"), [(0.5, 5.0), (2.0, 5.0), (1.0, 20.0)])
def test_a_further_uninformed_model_is_called_used_in_one_of_twenty_at_most(a: float, b: float, points: int) -> None:
    """Of models whose leads differ, skewed or not, searched at all points; the interval alone would let most pass."""
    draw, used = np.random.default_rng(0), 0
    for _ in range(60):
        leads = draw.beta(a, b, (6, points)).max(1)
        used += of_excess(float(leads[0]), 0.02, points=points, nulls=tuple(leads[1:])).judged.used is True
    assert used <= 6, used  # of 3 expected at most, 6 or fewer in 97 of 100


def test_what_was_judged_saves_and_loads_itself(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, n=24, null_draws=3).values()
    assert Used.model_validate_json(use.judged.model_dump_json()) == use.judged and use.judged.decodable is not None
    finding = Finding(label="root", place=None, point=MID, decodable=use.judged.decodable, tests={MID: use.judged})
    again = Finding.model_validate_json(finding.model_dump_json())
    assert again == finding and words.finding(again) == words.finding(finding) and again.status == finding.status


@pytest.mark.parametrize("how", ["interchange", "steer", "erase"])
def test_every_way_to_change_it_tells(compiled: dict[str, Run], how: str) -> None:
    (use,) = causal_test(compiled["chaser"], "root", point=MID, how=how, n=64, judged={}).values()
    assert use.judged.used is True, use.verdict()
    assert list(use.excess.coords["edit"]) == list(use.effect.coords["edit"])[1:]
    if how == "interchange":
        assert use.effect.select(edit="another label", outcome=FOLLOWED).values == 1.0
        assert use.effect.select(edit="same label", outcome=CHANGED).values < 0.1, "of what is rounded, made larger"


def test_what_no_direction_holds_is_not_tested(compiled: dict[str, Run]) -> None:
    (use,) = causal_test(compiled["sorter"], "length", point="blocks.0.hook_resid_pre", positions="delimiter").values()
    assert use.rank == 0 and use.judged.used is None and "no direction" in use.verdict()
    places = ["output 19", "output 1"]
    found = causal_test(compiled["sorter"], "identity", point=MID, positions="each output", n=4, places=places)
    assert list(found) == places and found["output 19"].judged.used is None


def test_harm_along_other_directions_does_not_say_that_a_label_is_unused(compiled: dict[str, Run]) -> None:
    """A chaser needs its positions; that it needs the tokens as well, which the other directions hold, is no matter."""
    (use,) = causal_test(compiled["chaser"], "position", point="blocks.0.hook_resid_pre", n=64).values()
    assert use.effect.select(edit="another label", outcome=CHANGED).values > 0.5
    assert use.judged.used is not False, use.verdict()


def test_the_same_seed_gives_the_same_test(compiled: dict[str, Run]) -> None:
    first, again = (
        causal_test(compiled["chaser"], "root", point=MID, n=32, judged={}, null_draws=2)["labelled"].effect.values
        for _ in range(2)
    )
    assert np.array_equal(first, again, equal_nan=True)


def test_places_are_tested_one_by_one(compiled: dict[str, Run]) -> None:
    found = causal_test(compiled["chaser"], "root", point=MID, positions=(8, 20), n=32, judged={})
    assert list(found) == ["8", "20"] and all(use.judged.used for use in found.values())
    one = causal_test(
        compiled["chaser"], "root", point=MID, positions=(8, 20), n=32, places=["20"], judged={}, null_draws=0
    )
    assert list(one) == ["20"]
    with pytest.raises(ValueError, match="unknown causal test 'cut'"):
        causal_test(compiled["chaser"], "root", point=MID, how="cut")
