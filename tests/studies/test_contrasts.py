"""Contrasts hold, fail or stay open by the interval over seeds, and say so with their figures."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.judgement.verdict import FEWEST_SEEDS, Rule, together
from workbench.judgement.words.studies import sentence
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import over_seeds
from workbench.studies import Higher, Near, Outcome, Reaches, StaysBelow, Verdict
from workbench.studies.study import Published


def mean(*values: float, units: str = "share") -> Measurement:
    """The mean over seeds with these values."""
    parts = [Measurement("accuracy", np.asarray(value), (), {}, units) for value in values]
    return over_seeds(parts, range(len(values)))


def means(**groups: tuple[float, ...]) -> dict[str, dict[str, Measurement]]:
    return {name: {"accuracy": mean(*values)} for name, values in groups.items()}


def test_a_clear_difference_holds_and_its_reverse_fails() -> None:
    asked = means(good=(0.98, 0.99, 0.97, 0.99, 0.98), bad=(0.2, 0.22, 0.19, 0.2, 0.21))
    holds, fails = (Higher("accuracy", *order).ask(asked) for order in (("good", "bad"), ("bad", "good")))
    assert (holds.verdict, fails.verdict) == (Verdict.HOLDS, Verdict.FAILS)
    assert holds.low is not None and fails.high is not None and holds.low > 0 > fails.high
    assert [group.n for group in holds.groups] == [5, 5] and holds.apart and not fails.apart
    words = sentence(holds)
    assert words.startswith("accuracy: good (98.2%, 5 seeds) against bad (20.4%, 5 seeds): +77.8 percentage points [")
    assert words.endswith("]; every seed of the first above every one of the second")


def test_what_differs_less_than_its_seeds_is_not_settled() -> None:
    asked = means(one=(0.5, 0.9, 0.2, 0.7, 0.4), other=(0.4, 0.8, 0.3, 0.6, 0.5))
    assert Higher("accuracy", "one", "other").ask(asked).verdict is Verdict.OPEN


def test_a_margin_must_be_passed_by_the_whole_interval() -> None:
    asked = {
        "one": {"loss": mean(2.0, 2.01, 1.99, 2.0, units="nats")},
        "other": {"loss": mean(1.0, 1.01, 0.99, 1.0, units="nats")},
    }
    verdicts = [Higher("loss", "one", "other", by=by).ask(asked).verdict for by in (0.5, 1.0, 1.5)]
    assert verdicts == [Verdict.HOLDS, Verdict.OPEN, Verdict.FAILS]


@pytest.mark.parametrize("seeds", range(1, FEWEST_SEEDS))
def test_too_few_seeds_settle_nothing(seeds: int) -> None:
    asked = means(good=(1.0,) * seeds, bad=(0.0,) * seeds)
    assert Higher("accuracy", "good", "bad").ask(asked).verdict is Verdict.OPEN
    assert Reaches("accuracy", "good", 0.9).ask(asked).verdict is Verdict.OPEN


def test_every_seed_must_reach_a_value() -> None:
    asked = means(all=(1.0, 0.99, 1.0), most=(1.0, 1.0, 0.5), none=(0.1, 0.12, 0.11, 0.1, 0.1))
    verdicts = {name: Reaches("accuracy", name, 0.99).ask(asked).verdict for name in asked}
    assert verdicts == {"all": Verdict.HOLDS, "most": Verdict.OPEN, "none": Verdict.FAILS}
    most = Reaches("accuracy", "most", 0.99).ask(asked)
    assert (most.reached, most.rule) == (2, Rule.SEEDS) and most.share == pytest.approx((0.0943, 0.9916), abs=1e-4)
    words = sentence(most)
    assert words.startswith("accuracy: 2 of 3 seeds of most reach 99% (of all such seeds 9.4 to 99.2%); mean 83.3% [")


def test_staying_below_is_the_reverse_of_reaching() -> None:
    asked = means(all=(1.0, 0.99, 1.0), most=(1.0, 1.0, 0.5), none=(0.1, 0.12, 0.11, 0.1, 0.1))
    verdicts = {name: StaysBelow("accuracy", name, 0.99).ask(asked).verdict for name in asked}
    assert verdicts == {"all": Verdict.FAILS, "most": Verdict.OPEN, "none": Verdict.HOLDS}
    words = sentence(StaysBelow("accuracy", "none", 0.99).ask(asked))
    assert words.startswith(
        "accuracy: 0 of 5 seeds of none reach 99% (of all such seeds 0 to 52.2%); mean 10.6% [8, 44.8]"
    )


def test_groups_that_are_hardly_ever_right_cannot_be_compared() -> None:
    asked = means(one=(0.0, 0.004, 0.002), other=(0.001, 0.0, 0.003), better=(0.0, 0.04, 0.02))
    outcomes = {name: Higher("accuracy", name, "other").ask(asked) for name in ("one", "better")}
    assert (outcomes["one"].verdict, outcomes["one"].rule) == (Verdict.NOTHING_LEARNT, Rule.NEVER_RIGHT)
    assert sentence(outcomes["one"]).endswith("; neither reaches 1%")
    assert outcomes["better"].verdict is Verdict.OPEN


def over_training(*curves: tuple[float, ...]) -> Measurement:
    """The mean over seeds of curves of five evaluations, the last fifth of training lying between the last two."""
    steps = {"step": [100, 200, 300, 400, 500]}
    name = "accuracy over training"
    return over_seeds([Measurement(name, np.array(curve), ("step",), steps, "share") for curve in curves], range(3))


FLAT, RISING = (0.1, 0.5, 0.51, 0.5, 0.51), (0.1, 0.2, 0.3, 0.4, 0.5)


def test_a_difference_below_half_of_the_published_one_does_not_hold_where_no_curve_rises() -> None:
    def asked(curve: tuple[float, ...], *values: float) -> dict[str, dict[str, Measurement]]:
        own, flat = over_training(curve, curve, curve), over_training(FLAT, FLAT, FLAT)
        one = {"accuracy": mean(*values), "accuracy over training": own}
        return {"one": one, "other": {"accuracy": mean(*OF_OTHERS), "accuracy over training": flat}}

    near = tuple(value + 0.03 for value in OF_OTHERS)
    published = [Published("one", "accuracy", 0.99), Published("other", "accuracy", 0.24)]
    contrast = Higher("accuracy", "one", "other")
    outcome = contrast.beside(published).ask(asked(FLAT, *near))
    assert (outcome.verdict, outcome.rule) == (Verdict.FAILS, Rule.SMALLER) and outcome.high is not None
    assert 0 < outcome.high < 0.375
    assert sentence(outcome).endswith("; less than half of the +75 percentage points that were published")
    assert contrast.ask(asked(FLAT, *near)).verdict is Verdict.OPEN, "nothing was published"
    assert (
        contrast.beside(published[:1])
        == contrast.beside([Published("one", "accuracy", 0.9, {"length": 3})])
        == contrast
    )
    less = [Published("one", "accuracy", 0.5), published[1]]
    assert contrast.beside(less).ask(asked(FLAT, *near)).verdict is Verdict.OPEN, "half of it may be there"
    assert contrast.beside(published).ask(asked(RISING, *near)).verdict is Verdict.STOPPED
    unknown = {name: {"accuracy": own["accuracy"]} for name, own in asked(FLAT, *near).items()}
    assert contrast.beside(published).ask(unknown).verdict is Verdict.OPEN, "a curve that nobody kept may rise"


OF_OTHERS = (0.3, 0.38, 0.46, 0.34, 0.42, 0.36, 0.44, 0.32, 0.4, 0.35, 0.41, 0.37)


def test_what_still_rises_was_stopped_on_the_way() -> None:
    values = {"one": mean(0.5, 0.9, 0.2), "other": mean(0.4, 0.8, 0.3)}
    for curve, verdict in ((RISING, Verdict.STOPPED), (FLAT, Verdict.OPEN)):
        asked = {
            name: {"accuracy": m, "accuracy over training": over_training(FLAT, FLAT, FLAT)}
            for name, m in values.items()
        }
        asked["one"]["accuracy over training"] = over_training(curve, curve, curve)
        assert Higher("accuracy", "one", "other").ask(asked).verdict is verdict
    stopped = over_training(RISING, RISING, RISING)
    asked["one"]["accuracy over training"] = stopped
    words = sentence(Higher("accuracy", "one", "other").ask(asked))
    assert words.endswith("; over the last 20% of the steps the curve still rose, that of one by +10 percentage points")
    clear = means(good=(0.98, 0.99, 0.97, 0.99, 0.98), bad=(0.2, 0.22, 0.19, 0.2, 0.21))
    clear["bad"]["accuracy over training"] = clear["good"]["accuracy over training"] = stopped
    assert Higher("accuracy", "good", "bad").ask(clear).verdict is Verdict.HOLDS  # by how much, at this budget
    assert Reaches("accuracy", "good", 0.9).ask(clear).verdict is Verdict.HOLDS
    for value, reaches, below in ((0.6, Verdict.STOPPED, Verdict.STOPPED), (0.9, Verdict.FAILS, Verdict.HOLDS)):
        assert Reaches("accuracy", "bad", value).ask(clear).verdict is reaches  # 50 points more in twice the steps
        assert StaysBelow("accuracy", "bad", value).ask(clear).verdict is below
    assert together([Higher("accuracy", "one", "other").ask(asked)]) is Verdict.STOPPED
    clear["bad"]["accuracy over training"], clear["bad"]["whole over training"] = (
        stopped,
        over_training(FLAT, FLAT, FLAT),
    )
    clear["bad"]["whole"] = clear["bad"]["accuracy"]
    assert StaysBelow("whole", "bad", 0.9).ask(clear).verdict is Verdict.HOLDS  # its own curve is flat
    rise = over_training(*3 * ((0.1, 0.15, 0.16, 0.17, 0.2),))  # by 3 points of a fifth: 15 more in twice the steps
    clear["bad"]["whole over training"] = rise
    for value, verdict in ((0.9, Verdict.HOLDS), (0.3, Verdict.STOPPED)):
        below = StaysBelow("whole", "bad", value).ask(clear)
        assert below.verdict is verdict and "still rose, that of bad by +3 percentage points" in sentence(below)


def test_seeds_on_one_plateau_have_learnt_nothing_that_could_differ() -> None:
    flat = over_training(FLAT, FLAT, FLAT)
    for values, verdict in (
        ((0.5, 0.51, 0.52), Verdict.NOTHING_LEARNT),
        ((0.97, 0.98, 0.97), Verdict.OPEN),  # learnt, by both
        ((0.5, 0.51, 0.6), Verdict.OPEN),  # one seed has left it
    ):
        both = {"accuracy": mean(*values), "accuracy over training": flat}
        outcome = Higher("accuracy", "one", "other").ask({"one": both, "other": both})
        assert outcome.verdict is verdict


def test_one_group_is_compared_with_itself_at_another_place() -> None:
    parts = [
        Measurement("accuracy", np.array([1.0, 0.2, 0.99]) - noise, ("digit",), {"digit": [0, 1, 2]}, "share")
        for noise in (0.0, 0.01, 0.02, 0.0, 0.01)
    ]
    asked = {"vanilla": {"accuracy": over_seeds(parts, range(5))}}
    contrast = Higher("accuracy", "vanilla", "vanilla", at={"digit": 0}, than_at={"digit": 1})
    outcome = contrast.ask(asked)
    assert outcome.verdict is Verdict.HOLDS and "against vanilla, digit 1 (" in sentence(outcome)


def test_a_mean_is_near_a_value_where_its_whole_interval_is() -> None:
    each = {"same": (0.50, 0.51, 0.49, 0.5), "far": (0.90, 0.91, 0.89, 0.9), "wide": (0.1, 0.9, 0.5, 0.6)}
    asked = {name: {"loss": mean(*values, units="nats")} for name, values in each.items()}
    verdicts = {name: Near("loss", name, 0.5, within=0.05).ask(asked).verdict for name in asked}
    assert verdicts == {"same": Verdict.HOLDS, "far": Verdict.FAILS, "wide": Verdict.OPEN}


def test_a_missing_group_quantity_or_place_is_named() -> None:
    asked = means(good=(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match=r"unknown group 'god'.*did you mean 'good'"):
        Reaches("accuracy", "god", 1.0).ask(asked)
    with pytest.raises(ValueError, match="unknown quantity of good 'loss'"):
        Reaches("loss", "good", 1.0).ask(asked)
    with pytest.raises(ValueError, match="has no dim 'length'"):
        Reaches("accuracy", "good", 1.0, at={"length": 3}).ask(asked)


def test_a_study_holds_where_all_its_contrasts_do() -> None:
    asked = means(good=(1.0, 1.0, 1.0), bad=(0.1, 0.1, 0.1, 0.1, 0.1), mixed=(1.0, 0.5, 1.0))
    good, bad, mixed = (Reaches("accuracy", name, 0.99).ask(asked) for name in asked)
    assert together([good, good]) is Verdict.HOLDS
    assert together([good, mixed]) is Verdict.OPEN
    assert together([good, mixed, bad]) is Verdict.FAILS


def over_runs(*values: float) -> Measurement:
    """The mean that a study makes of runs with these accuracies, each of 512 sequences."""
    n = np.asarray(512)
    parts = [Measurement("accuracy", np.asarray(value), (), {}, "share", n=n) for value in values]
    return over_seeds(parts, range(len(values)), shared=True)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ((0.53, 0.54, 0.535), (0.23, 0.24, 0.235), Verdict.OPEN),  # the fourth seed of either may solve it, or fail
        ((0.8, 0.84, 0.79, 0.86, 0.9), (0.47, 0.4, 0.6, 0.5, 0.45), Verdict.OPEN),
        ((0.8, 0.84, 0.79, 0.86, 0.9) * 2, (0.47, 0.4, 0.6, 0.5, 0.45) * 2, Verdict.HOLDS),
        ((1.0, 1.0, 1.0), (0.2, 0.25, 0.22), Verdict.HOLDS),
        ((1.0, 1.0, 0.2), (0.2, 0.25, 0.22), Verdict.OPEN),  # one seed of three fails
        ((1.0, 1.0, 1.0), (0.999, 1.0, 0.998), Verdict.OPEN),  # no more than the sequences leave open
    ],
)
def test_runs_are_told_apart_with_room_for_seeds_that_were_not_seen(
    one: tuple[float, ...], other: tuple[float, ...], verdict: Verdict
) -> None:
    asked = {"one": {"accuracy": over_runs(*one)}, "other": {"accuracy": over_runs(*other)}}
    assert Higher("accuracy", "one", "other").ask(asked).verdict is verdict


def test_seeds_that_all_solve_it_leave_room_for_one_that_does_not() -> None:
    whole = over_runs(1.0, 1.0, 1.0)
    assert whole.low is not None and 0.4 < float(whole.low) < 0.6 and whole.high == 1.0


@pytest.mark.parametrize("by", [0.5, 0.7])
def test_a_margin_does_not_hold_by_seeds_that_were_not_seen(by: float) -> None:
    """9 in 10 seeds of one group solve it, 1 in 10 of the other: means .91 and .28, often seen as .99 and .20."""
    asked = {"one": {"accuracy": over_runs(*[0.99] * 5)}, "other": {"accuracy": over_runs(*[0.2] * 5)}}
    assert Higher("accuracy", "one", "other", by=by).ask(asked).verdict is Verdict.OPEN


def test_an_outcome_saves_and_loads_itself_and_one_of_an_earlier_version_loads() -> None:
    asked = means(good=(1.0, 0.99, 1.0), bad=(0.1, 0.2, 0.1))
    for contrast in (Higher("accuracy", "good", "bad"), Reaches("accuracy", "good", 0.99)):
        outcome = contrast.ask(asked)
        assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome
    old = {"verdict": "holds", "value": 0.2, "low": None, "high": 0.3, "n": [3, 4], "words": "accuracy: a above b"}
    loaded = Outcome.model_validate(old)
    assert (loaded.verdict, loaded.value, loaded.low) == (Verdict.HOLDS, 0.2, None)
    assert [group.n for group in loaded.groups] == [3, 4] and loaded.asked is None


def test_equal_seeds_of_what_is_no_share_leave_no_interval_and_it_says_so() -> None:
    """Of a share an interval remains: that of the sequences."""
    asked = {
        "one": {"steps": mean(800, 800, 800, units="steps")},
        "other": {"steps": mean(240, 260, 250, units="steps")},
        "third": {"steps": mean(3, 3, 3, units="steps")},
    }
    outcome = Higher("steps", "one", "other").ask(asked)
    assert outcome.verdict is Verdict.OPEN and outcome.low is None and outcome.rule is Rule.NO_SPREAD
    assert sentence(outcome).endswith("; all seeds of one are equal, which leaves no interval")
    assert "of one and third are equal" in sentence(Higher("steps", "one", "third").ask(asked))
    equal = Higher("accuracy", "good", "bad").ask(means(good=(1.0,) * 3, bad=(0.0,) * 3))
    assert equal.rule is Rule.INTERVAL and "equal" not in sentence(equal)


def test_one_of_a_unit_is_said_in_the_singular() -> None:
    counted = {"a": {"length": mean(1, 1, 1, units="tokens")}, "b": {"length": mean(21, 21, 21, units="tokens")}}
    words = sentence(Near("length", "a", 1, 1).ask(counted))
    assert "1 token" in words and "1 tokens" not in words
    assert "21 tokens" in sentence(Near("length", "b", 21, 1).ask(counted))
