"""A claim is said in one order: how often, beside which controls in counts, then whether the answers need it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.judgement import claim as fields
from workbench.judgement.against_controls import Against, Compared, Tally, compare_counts
from workbench.judgement.claim import EditCounts, JudgedClaim, Judgement, Need, NeededSet, Often
from workbench.judgement.words import claims
from workbench.measurement import Measurement

NAN = float("nan")


def control(hits: float, n: int, result: Against = Against.BEYOND, models: int | None = 8, p: float = 0.01) -> Compared:
    most = hits / n if n else NAN
    return Compared(against="untrained", hits=hits, n=n, models=models, most=most, p=p, result=result)


def judged(rate: float, n: int = 100, need: Need = Need.UNTESTED, **more: Any) -> Judgement:
    often = Often.of(rate) if n >= 5 else Often.UNKNOWN
    other: dict[str, Any] = {"place": {}, "controls": (control(7, 800),), "need": need} | more
    return Judgement(
        claim="minimum", title="Minimum", rate=rate, low=rate - 0.05, high=rate + 0.05, n=n, often=often, **other
    )


def edited(edit: str, changed: float, n: int, as_claimed: float = 0.0, low: float = 0.0) -> EditCounts:
    return EditCounts(edit=edit, n=n, changed=changed, as_claimed=as_claimed, low=low, high=1.0)


def causal(changed: float = 40, n: int = 50, nulls: tuple[Compared, ...] = (), **more: Any) -> fields.Test:
    others = more.pop("others", (edited("elsewhere", 2, 50),))
    claimed = edited("claimed", changed, n, 30)
    return fields.Test(where="", claimed=claimed, others=others, decided_by="changed", nulls=nulls, **more)


@pytest.mark.parametrize(
    ("rate", "word"),
    [(1.0, "always"), (0.99, "always"), (0.8, "mostly"), (0.5, "sometimes"), (0.24, "rarely"), (0.04, "not found")],
)
def test_the_first_word_is_how_often_whatever_the_control(rate: float, word: str) -> None:
    for against in Against:
        text = claims.holding([judged(rate, controls=(control(7, 800, against),))])
        assert text.startswith(word) and f"{100 * rate:g}%" in text and "7 of 800 in 8 models" in text


def test_of_too_few_cases_no_share_is_said() -> None:
    text = claims.holding([judged(1.0, n=3)])
    assert "3 cases" in text and "%" not in text and "always" not in text


def test_what_is_not_beyond_its_controls_is_not_said_to_be_and_too_few_are_no_equality() -> None:
    said = {
        against: claims.holding([judged(0.8, controls=(control(7, 20, against),))])
        for against in (Against.BEYOND, Against.NO_MORE, Against.TOO_FEW)
    }
    assert "beyond its controls" in said[Against.BEYOND]
    assert claims.AGAINST[Against.NO_MORE] in said[Against.NO_MORE] and "beyond" not in said[Against.NO_MORE]
    assert (
        "too few to compare" in said[Against.TOO_FEW] and claims.AGAINST[Against.NO_MORE] not in said[Against.TOO_FEW]
    )
    assert "no control was measured" in claims.holding([judged(0.8, controls=())])


def test_a_count_of_uninformed_models_is_their_own_and_no_limit() -> None:
    """Nobody reached a prediction limit; 13 of 34 answers were seen."""
    nulls = (
        compare_counts(Tally(40, 50), [Tally(3, 8), Tally(5, 13), Tally(5, 13)], "untrained"),
        compare_counts(Tally(40, 50), [Tally(0, 0)] * 4, "shuffled"),
    )
    text = claims.needing([judged(0.8, need=Need.NOT_COMPARED, test=causal(nulls=nulls))])
    assert "40 of 50 right answers change, 30 as claimed" in text and "elsewhere, 2 of 50 change" in text
    assert "re-initialised models, 13 of 34 change in 3 models" in text
    assert "models of shuffled weights, none to count in 4 models" in text
    assert "at most" not in text and "up to" not in text


def test_without_right_answers_of_uninformed_models_nothing_is_said_to_be_needed() -> None:
    for need in Need:
        says_needed = claims.needing([judged(0.8, need=need, test=causal())]).startswith("the answers need it")
        assert says_needed == (need in (Need.AS_CLAIMED, Need.LOST))


def test_an_edit_that_changes_nothing_where_another_does_tells_of_the_other() -> None:
    others = (edited("elsewhere", 0, 50), edited("residual", 50, 50, low=0.9), edited("head", 0, 50))
    text = claims.needing([judged(1.0, need=Need.IDLE, test=causal(0, others=others))])
    assert "the answers do not need it" not in text and "residual, 50 of 50 change" in text and "head," not in text


def test_places_with_the_same_result_are_one_line_and_their_numbers_ranges() -> None:
    def at(hop: int, rate: float) -> Judgement:
        return judged(rate, place={"hop": hop}, controls=(control(hop, 100),))

    claim = JudgedClaim(places=(at(1, 1.0), at(2, 1.0), at(3, 0.5)))
    assert [claims.name_of(claim, group) for group in claim.alike] == ["Minimum, hops 1 to 2", "Minimum, hop 3"]
    (first,), (second,) = claims.lines(claim)
    assert "100%" in first and "re-initialised models, 1 to 2%" in first and "50%" in second
    assert first.startswith("Minimum, hops 1 to 2: always, ") and second.startswith("Minimum, hop 3: sometimes, ")


def test_of_seeds_the_numbers_are_seeds() -> None:
    seeds = (judged(1.0, need=Need.AS_CLAIMED, test=causal()), judged(0.2, controls=(control(1, 9, Against.NO_MORE),)))
    together = judged(0.6, n=2, seeds=seeds, controls=()).model_copy(update={"often": Often.SOMETIMES})
    assert "over 2 seeds" in claims.holding([together]) and "in 1 of 2 seeds" in claims.holding([together])
    assert claims.needing([together]) == "the answers need it in 1 of 2 seeds"
    absent = together.model_copy(update={"seeds": (seeds[0], judged(0.02))})
    assert "beyond its controls in 1 of 2 seeds" in claims.holding([absent]), "where it is not found it is not beyond"


def test_the_needed_set_is_told_at_the_hops_that_the_model_solves_and_its_absence_by_hop() -> None:
    """A mean over hops that the model fails hides those that it solves."""
    found = NeededSet(heads=((0, 1),), hops=(1, 2, 3), everywhere=(0.9, 0.8, 0.0), in_set=(0.85, 0.75, 0.0))
    text = claims.needed_set(found)
    assert "75 to 85% of right answers change at hops 1, 2 (in every head 80 to 90%" in text
    absent = claims.needed_set(NeededSet(heads=(), hops=(1, 2), everywhere=(0.05, 0.0), in_set=()))
    assert "hop 1 5%, hop 2 0%" in absent and absent.startswith("no set of heads is needed")
    assert "7%" not in absent
    none = claims.needed_set(NeededSet(heads=(), hops=(), everywhere=(), in_set=()))
    assert none.startswith("no right answer could be edited")


def test_the_control_beside_a_share_is_the_one_that_is_hardest_to_exceed_by_the_one_rule() -> None:
    """It was one interval above another: of two re-initialised models too, which tell nothing of a third."""
    own = Measurement("Mass", np.array(0.9), (), {}, "share", n=np.array(50), low=np.array(0.8), high=np.array(0.95))
    of = {"models": True, "against": "untrained"}
    clear, few = (
        compare_counts(Tally(45, 50), [Tally(15, 50)] * 4, **of),
        compare_counts(Tally(45, 50), [Tally(15, 50)] * 2, **of),
    )
    other = compare_counts(Tally(45, 50), [Tally(1, 50)], "mismatched", models=False)
    assert (
        claims.beside_controls(own, [other, clear])
        == "Mass: 90%, beyond its controls (nearest: re-initialised models, 30%)."
    )
    assert claims.beside_controls(own, [few]) == (
        "Mass: 90%, too few to compare with a control (nearest: re-initialised models, 30%)."
    )
    assert claims.beside_controls(own, []) == "Mass: 90%."


def test_badges_say_how_often_then_beside_controls_then_whether_it_is_needed() -> None:
    needed, low = judged(1.0, need=Need.AS_CLAIMED), judged(0.2, controls=(control(1, 9, Against.NO_MORE),))
    lost, unknown, nowhere = low.model_copy(update={"need": Need.LOST}), judged(1.0, n=2), judged(0.0)
    assert claims.in_short(needed, [needed], [needed])[1:] == ("beyond its controls", "answers need it")
    assert claims.in_short(needed, [needed, low], [])[1:] == ("beyond its controls at 1 of 2 places", "")
    assert claims.in_short(low, [low], [low]) == ("rarely: 20%", claims.AGAINST[Against.NO_MORE], "")
    assert claims.in_short(low, [low], [lost])[2] == "but answers need it, not as claimed"
    assert claims.in_short(unknown, [unknown], [])[0] == "too few cases to say how often"
    assert claims.in_short(nowhere, [nowhere], [])[1] == "", "what is not found is beyond nothing"
    on_input = {(1.0, NAN): "holds on this input", (0.0,): "does not hold on this input", (0.25, 1.0): "25 to 100%"}
    assert all(words in claims.on_one_input(scores) for scores, words in on_input.items())
    assert claims.how_many([[needed], [low]]).startswith("1 of 2 claims ")


def test_a_judged_claim_saves_and_loads_itself() -> None:
    claim = JudgedClaim(
        places=(judged(NAN, n=0, need=Need.LOST, test=causal(nulls=(control(0, 0),)), seeds=(judged(0.5),)),),
        needed_set=NeededSet(heads=((0, 1),), hops=(1,), everywhere=(0.9,), in_set=(0.8,)),
    )
    again = JudgedClaim.model_validate_json(claim.model_dump_json())
    assert again.model_dump_json() == claim.model_dump_json() and claims.lines(again) == claims.lines(claim)
