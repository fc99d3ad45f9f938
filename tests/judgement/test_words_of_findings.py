"""What was found of a run is told the most telling first, and what is absent or like its controls is told as that."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.judgement.against_controls import Against, Compared
from workbench.judgement.claim import JudgedClaim, Judgement, Need, Often
from workbench.judgement.extremes import Extreme
from workbench.judgement.findings import AnswerRates, Findings, Focus, GoldMass, MeasuredOn, Share
from workbench.judgement.words import claims
from workbench.judgement.words.findings import (
    MOST_CLAIMS,
    at_a_glance,
    focus,
    how_sure,
    of_models,
    statements,
    what_it_costs,
)
from workbench.judgement.words.summary import sentences

SAMPLE = MeasuredOn(drawn=128, distinct=117, kind="held-out")
CLAIMS = ("copy", "minimum", "successor", "identity_removed", "chain_following", "carry")


def share(value: float, low: float | None = None, high: float | None = None) -> Share:
    return Share(value=value, low=value if low is None else low, high=value if high is None else high, n=100)


def one_of(claim: str, rate: float, result: Against = Against.BEYOND, **more: Any) -> JudgedClaim:
    control = Compared(against="untrained", hits=7, n=800, models=8, most=0.01, p=0.01, result=result)
    fields = {"place": {}, "low": rate, "high": rate, "n": 100, "often": Often.of(rate), "controls": (control,)} | more
    return JudgedClaim(places=(Judgement(claim=claim, title=claim.title(), rate=rate, **fields),))


def found(*judged: JudgedClaim, **more: Any) -> Findings:
    return Findings(name="a run", samples=(SAMPLE,), claims=judged, **more)


def test_what_answers_need_comes_first_then_what_is_beyond_its_controls_then_the_rest() -> None:
    needed, like_controls = {"need": Need.AS_CLAIMED}, one_of("copy", 1.0, Against.NO_MORE)
    said = statements(
        found(like_controls, one_of("minimum", 0.9), one_of("successor", 0.3, **needed), one_of("carry", 0.0))
    )
    assert [one.chips for one in said] == [("holds", "needed"), ("holds",), ("absent",), ("tells nothing",)]
    assert [one.claims for one in said] == [("successor",), ("minimum",), ("carry",), ("copy",)]
    assert said[0].text.startswith("Successor: ") and said[0].rest == said[0].text.removeprefix("Successor: ")


def test_every_claim_is_told_once_with_how_often_it_holds() -> None:
    every = [one_of(name, rate) for name, rate in zip(CLAIMS, (1.0, 0.9, 0.8, 0.75, 0.02, 0.01), strict=True)]
    said = statements(found(*every))
    assert sorted(name for one in said for name in one.claims) == sorted(CLAIMS)
    text = "\n".join(one.text for one in said).lower()
    assert all(text.count(claims.holding(claim.places)) == 1 for claim in every)
    assert [len(one.claims) for one in said] == [1] * MOST_CLAIMS + [1, 2]


def test_where_nothing_tells_what_is_absent_is_said_first() -> None:
    said = statements(found(one_of("copy", 0.5, Against.NO_MORE), *(one_of(name, 0.0) for name in CLAIMS[1:])))
    assert said[0].chips == ("absent",) and "Not found (in 0%" in said[0].text and said[0].brief
    assert sorted(name for one in said for name in one.claims) == sorted(CLAIMS)
    assert at_a_glance(found(one_of("copy", 0.0)))[0] == "Copy"


def test_several_models_are_told_by_what_was_found_in_each() -> None:
    needed, there = one_of("minimum", 0.9, need=Need.AS_CLAIMED), one_of("minimum", 0.9)
    without, nothing = one_of("minimum", 0.0), found()
    assert of_models([found(needed), found(there), found(there), found(without), nothing]) == (
        "In 1 of 5 models a claimed mechanism holds beyond its controls and the answers need it; in 2 one holds, and "
        "it is not shown that the answers need it; in 1 none of those claimed does; in 1 none is claimed."
    )


def test_a_head_is_told_by_what_is_lost_without_it_and_what_it_reads() -> None:
    said = what_it_costs((0, 1), share(0.12, 0.09, 0.16), share(0.627, 0.6, 0.653))
    assert said == (
        "Layer 0, head 1: without it 62.7% [60, 65.3] of right answers change, 12% [9, 16] of its attention lies on "
        "the task's edges, over other sequences."
    )
    assert what_it_costs((0, 1), None, None) is None


def test_claims_together_say_how_often_each_holds_and_whether_it_is_needed() -> None:
    judged = [one_of("minimum", 0.9), one_of("copy", 1.0, Against.NO_MORE), one_of("carry", 0.0)]
    places, unknown = [one.places for one in judged], "need not tested"
    told = (
        "1 of 3 claims hold beyond their controls: Minimum (90%, {}); not so Copy (100%, no more than under a control"
    )
    assert claims.how_many(places, {"minimum": "needed"}) == f"{told.format('needed')}), Carry (0%)."
    needs = {one.claim: claims.need_in_a_word(one.places) for one in judged} | {"copy": "needed"}
    assert claims.how_many(places, needs) == f"{told.format(unknown)}, but needed), Carry (0%)."
    for need, words in ((Need.LOST, "needed"), (Need.NOT_NEEDED, "not needed"), (Need.AS_NULLS, "need not settled")):
        assert claims.need_in_a_word(one_of("minimum", 0.9, need=need).places) == words
    assert claims.how_many(places[:1]) == "The one claim holds beyond its controls: Minimum (90%)."
    assert claims.how_many(places[2:]) == "The one claim does not hold beyond its controls: Carry (0%)."


def test_a_card_says_where_a_control_does_as_much_and_whether_need_was_tested() -> None:
    (like,) = (
        one for one in statements(found(one_of("copy", 1.0, Against.NO_MORE, need=Need.AS_CLAIMED))) if one.brief
    )
    assert like.brief == "always, in 100% of cases (no more than under a control: 0.9%); the answers need it"
    (beyond,) = statements(found(one_of("minimum", 0.9)))
    assert beyond.brief.endswith("(nearest control 0.9%); whether the answers need it is not tested")


def test_what_too_few_cases_test_is_not_told_as_absent() -> None:
    unknown = one_of("minimum", 0.0, n=3, often=Often.UNKNOWN)
    (told,) = statements(found(unknown))
    assert told.chips == ("tells nothing",) and "3 cases" in told.text and "not found" not in told.text.lower()


def test_at_a_glance_is_the_most_telling_claim_or_that_none_is() -> None:
    name, numbers = at_a_glance(found(one_of("copy", 1.0, Against.NO_MORE), one_of("minimum", 0.9)))
    assert name == "Minimum" and numbers.startswith("mostly, in 90% of cases (nearest control 0.9%)")
    assert at_a_glance(found(one_of("copy", 1.0, Against.NO_MORE))) == (
        "",
        "No claim about how it works holds beyond its controls.",
    )
    assert "no claim here is about this task" in at_a_glance(found())[1]


def test_groups_that_are_least_right_alike_are_all_named() -> None:
    """Ties are not extremes."""
    places = tuple({"length": length} for length in (22, 26, 30))
    worst = Extreme(which="least", places=places, value=0.0, reach=0.02, n=8)
    shares = {"position": share(0.84, 0.8, 0.87), "sequence": share(0.56, 0.47, 0.64)}
    answers = AnswerRates(**shares, worst=worst, groups="2 to 30")
    (told,) = statements(found(answers=answers))
    assert "least right at length 22, 26 and 30 of 2 to 30 (0 to 2%)" in told.text
    assert "84% [80, 87]" in told.text and "56% [47, 64]" in told.text and "128 drawn, 117 distinct" in told.text


def test_mass_on_true_edges_is_told_where_no_claim_tells_and_beside_its_control() -> None:
    control = Compared(against="mismatched", hits=30, n=100, models=None, most=0.3, p=0.4, result=Against.NO_MORE)
    gold = GoldMass(heads=((0, 1),), mass=share(0.36), control=control)
    (told,) = statements(found(gold=gold))
    assert told.chips == ("tells nothing",) and "36%" in told.text and "30%" in told.text
    beyond = gold.model_copy(update={"control": control.model_copy(update={"result": Against.BEYOND})})
    assert statements(found(gold=beyond))[0].chips == ("reads",)
    assert [one.claims for one in statements(found(one_of("minimum", 1.0), gold=gold))] == [("minimum",)]


def test_the_head_in_focus_is_named_with_its_cost_and_one_that_answers_need_more_before_it() -> None:
    removed = (((0, 0), share(0.25, 0.15, 0.35)), ((1, 2), share(0.5, 0.4, 0.6)))
    alike = focus(Focus(head=(0, 0), removed=removed, needed=(0, 0)))
    assert alike is not None and alike.startswith("Layer 0, head 0 has the most mass")
    assert "25% [15, 35] of right answers change; without layer 1, head 2 50% [40, 60]" in alike
    other = focus(Focus(head=(0, 0), removed=removed, needed=(1, 2)))
    assert other is not None and other.startswith("The head that answers need most is layer 1, head 2")
    like_control = focus(Focus(head=(0, 0), no_more_than=("untrained",)))
    though = f"though {claims.AGAINST[Against.NOT_CLEAR]} (re-initialised models)"
    assert like_control is not None and though in like_control
    assert focus(None) is None


def test_how_sure_is_told_from_sequences_of_one_seed_or_from_seeds() -> None:
    one, three = found(), Findings(name="three", samples=(SAMPLE,) * 3)
    assert how_sure([one]).endswith("say nothing of other seeds.")
    assert how_sure([three]).endswith("means and intervals are over 3 seeds of each config.")


@pytest.mark.parametrize("n", [1, 2])
def test_of_one_run_its_statements_are_told_and_of_several_in_how_many_a_claim_holds(n: int) -> None:
    here, absent = (found(one_of("minimum", rate)).model_copy(update={"name": f"at {rate}"}) for rate in (0.9, 0.0))
    said = sentences([here, absent][:n])
    if n == 1:
        assert said == [*(one.text for one in statements(here)), how_sure([here])]
    else:
        assert said[0] == "Minimum holds beyond its controls in 1 of 2 runs (at 0.9)."


def test_of_several_the_most_and_fewest_right_answers_are_told_once_and_intervals_that_meet_as_about_as_many() -> None:
    right = [
        AnswerRates(position=share(value, value - 0.02, value + 0.02), sequence=share(0.0)) for value in (0.9, 0.4)
    ]
    first, second = (
        found(answers=one).model_copy(update={"name": name}) for name, one in zip("ab", right, strict=True)
    )
    assert (
        sentences([first, second])[0] == "Of 2 runs, a gets most answers right (90% [88, 92]), b fewest (40% [38, 42])."
    )
    assert sentences([first, first])[0] == "All 2 runs get about as many answers right (90%)."


def test_findings_save_and_load_themselves() -> None:
    whole = found(one_of("minimum", 0.9), focus=Focus(head=(0, 1), removed=(((0, 1), share(float("nan"))),)))
    again = Findings.model_validate_json(whole.model_dump_json())
    assert again.model_dump_json() == whole.model_dump_json() and statements(again) == statements(whole)
