"""What a figure of many places shows: its least and most, what changed, what differs."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench import tasks
from workbench.judgement.words import by_place
from workbench.measurement import Measurement

NAN = float("nan")


def measured(
    values: Any, name: str = "Entropy", units: str = "nats", wide: float | None = None, **coords: Any
) -> Measurement:
    array = np.array(values, dtype=float)
    ends = {} if wide is None else {"low": array - wide, "high": array + wide}
    return Measurement(name, array, tuple(coords), coords, units, {}, **ends)


POINTS = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"]


def test_the_least_and_the_most_are_told_with_their_places_and_nothing_of_no_numbers() -> None:
    m = measured([[3.0, NAN, 1.5], [2.0, 2.5, 4.0]], length=[2, 30], layer=POINTS)
    assert by_place.extremes(m) == (
        "Entropy is least at length 2, after MLP 0 (1.50 nats) and most at length 30, after MLP 0 (4.00 nats)."
    )
    assert by_place.extremes(measured([NAN], length=[2])) is None
    assert by_place.extremes(measured([0.5, 0.5], "Rate", "share", hop=[1, 2])) == "Rate: 50% throughout."


def test_ties_are_not_extremes() -> None:
    near = measured([1.442, 1.441, 1.9], layer=POINTS, wide=0.04)
    assert by_place.extremes(near) == (
        "Entropy is least at the embedding and after attention 0 (1.44 nats) and most after MLP 0 (1.90 nats)."
    )
    assert by_place.extremes(measured([1.5, 1.4], "Rate", "nats", 0.2, hop=[1, 2])) == (
        "Rate: 1.40 to 1.50 nats throughout, and no place is clearly above or below all others."
    )
    zeros = measured([0.0, 0.9, 0.0, 0.0], "Accuracy", "share", length=[22, 24, 26, 30])
    assert by_place.extremes(zeros) == ("Accuracy is least at length 22, 26 and 30 (0%) and most at length 24 (90%).")


def test_at_the_last_layer_every_control_is_told() -> None:
    m, same = measured([3.0, 1.5], layer=POINTS[1:]), {"untrained": measured([0.5, 2.25], layer=POINTS[1:])}
    assert by_place.at_last(m, same) == "Entropy is 1.50 nats; untrained 2.25 after MLP 0."
    assert by_place.at_last(m, {}) == "Entropy is 1.50 nats after MLP 0."


def test_of_several_runs_the_least_of_each_is_told_lowest_first() -> None:
    runs = {"a": measured([2.0, 1.0], layer=[0, 1]), "b": measured([0.5, 3.0], layer=[0, 1])}
    told = "The least entropy of each, lowest first: b 0.50 nats at layer 0; a 1.00 nats at layer 1."
    assert by_place.least_of_all(runs) == told
    assert by_place.least_of_all({"a": runs["a"]}) == by_place.extremes(runs["a"])
    assert by_place.least_of_all({"a": measured([NAN], layer=[0])}) is None


def test_sequences_differ_most_where_their_range_is_widest() -> None:
    m = measured([[1.0, 1.5, NAN], [2.0, 4.0, 3.0]], layer=POINTS[:2], example=[0, 1, 2])
    assert by_place.widest_spread(m) == "Sequences differ most after attention 0: 2.00 to 4.00 nats."
    assert by_place.widest_spread(measured([[NAN]], layer=[0], example=[0])) is None


def test_what_changed_is_told_at_the_place_that_changed_most_with_its_control_there() -> None:
    m = measured([[0.1, 0.2], [0.2, 0.9]], "Rate", "share", step=[0, 1000], hop=[1, 2])
    control = measured([[0.1, 0.1], [0.1, 0.3]], "Rate", "share", step=[0, 1000], hop=[1, 2])
    assert by_place.changed(m, "step", control) == (
        "Rate at hop 2: 20% at step 0, 90% at step 1,000; its control 10% and 30%."
    )
    assert by_place.changed(measured([0.1], step=[0]), "step") is None


def test_of_a_change_that_its_interval_tells_half_of_the_way_is_told_too() -> None:
    def told(values: list[float], wide: float | None) -> str | None:
        return by_place.changed(measured(values, "Rate", "share", wide, step=[0, 10, 100, 600]), "step")

    start = "Rate: 20% at step 0, 90% at step 600"
    half = "half of that change was passed between step"
    assert told([0.2, 0.1, 0.6, 0.9], 0.1) == f"{start}; {half} 10 (10%) and step 100 (60%)."
    assert told([0.2, 0.9, 0.4, 0.9], 0.1) == f"{start}; {half} 0 (20%) and step 10 (90%)."
    assert told([0.2, 0.1, 0.6, 0.9], 0.8) == told([0.2, 0.1, 0.6, 0.9], None) == f"{start}."
    falls = told([0.9, 0.95, 0.3, 0.2], 0.1)
    assert falls == f"Rate: 90% at step 0, 20% at step 600; {half} 10 (95%) and step 100 (30%)."


def test_a_difference_is_told_only_where_its_interval_excludes_none() -> None:
    units = "difference in share"
    sure = measured([-0.5, 0.05], "B − A", units, 0.1, hop=[1, 2])
    told = "B differs from A at 1 of 2 places, by intervals that exclude 0; most at hop 1 (-50 percentage points)."
    assert by_place.differs(sure) == told
    sides = measured([0.9, 0.4], "A", "share", hop=[1, 2]), measured([0.4, 0.45], "B", "share", hop=[1, 2])
    assert by_place.differs(sure, sides) == (
        "At hop 1: 90% in A, 40% in B, -50 percentage points [-60, -40]; at hop 2: 40% in A, 45% in B, "
        "+5 percentage points [-5, 15]."
    )
    many = measured([-0.5, 0.05, 0.05, 0.05], "B − A", units, 0.1, hop=[1, 2, 3, 4])
    of_each = [measured(values, "A", "share", hop=[1, 2, 3, 4]) for values in ([0.9] + 3 * [0.4], [0.4] + 3 * [0.45])]
    assert by_place.differs(many, of_each) == (
        "At hop 1: 90% in A, 40% in B, -50 percentage points [-60, -40]. B differs from A at 1 of 4 places, by "
        "intervals that exclude 0."
    )
    unsure = by_place.differs(measured([-0.5, 0.05], "B − A", units, 0.6, hop=[1, 2]))
    told = "No difference between A and B can be told from none: -50 percentage points to +5 percentage points."
    assert unsure == told
    of_two = by_place.differs(measured([-0.5, 0.05], "B − A", units, 0.6, hop=[1, 2]), sides)
    assert of_two == (
        "At hop 1: 90% in A, 40% in B, -50 percentage points [-110, 10]; at hop 2: 40% in A, 45% in B, +5 percentage "
        "points [-55, 65]. No such difference can be told from none."
    )
    single = by_place.differs(measured([-0.5, 0.05], "B − A", units, hop=[1, 2]))
    assert single is not None and single.endswith("of single inputs there is no interval.")
    assert by_place.differs(measured(0.3, "B − A", "difference in nats", 0.1)) == "B differs from A by +0.30 nats."


def test_mass_on_ancestors_is_of_queries_that_have_one() -> None:
    matrix = np.array([[1.0, 0, 0], [0.8, 0.2, 0], [0.3, 0.6, 0.1]])
    gold = [(1, 1, 0), (1, 2, 1), (2, 2, 0)]
    names = ["0:a", "1:b", "2:c"]
    one = measured(matrix, "A", "share", query=names, key=names)
    told = by_place.on_ancestors({"γ = 0": one}, gold)
    assert told == "On the task's true edges, of an average query's row: γ = 0 85%."
    both = measured(np.stack([matrix, matrix]), "A", "share", matrix=["pattern", "A²"], query=names, key=names)
    assert (
        by_place.by_hop(both, gold) == "On the task's true edges of as many hops, on average: hop 1: 70%; hop 2: 30%."
    )
    assert by_place.on_ancestors({"γ = 0": one}, []) is None and by_place.by_hop(both, []) is None


def test_the_token_that_ends_ahead_is_told_with_the_point_from_which_on_it_is() -> None:
    values = [[[1, 2], [3, 1], [4, 1]], [[5, 1], [5, 1], [5, 1]]]
    path = measured(values, "Path", "x", basis=["encoder", "decoder"], point=POINTS, token=["7", "8"])
    assert by_place.leads(path) == (
        "In the encoder basis 7 ends ahead of the tokens drawn, and is so from after attention 0 on; in the decoder "
        "basis 7 ends ahead of the tokens drawn, and is so from embedding on."
    )
    ranks = measured([[[2, 1], [1, 2]]], "Rank", "rank", basis=["decoder"], point=POINTS[:2], token=["7", "8"])
    said = by_place.leads(ranks)
    assert said is not None and said.startswith("In the decoder basis 7 ends ahead"), "the lowest rank is the first"


def test_answers_to_one_input_are_counted_where_they_are_asked_for() -> None:
    task = tasks.make("sorting")
    assert by_place.answered([None, True, False, True], task) == "2 of 3 answers to this input are right."
    assert by_place.answered([None, False], task) == "The answer to this input is wrong."
    assert by_place.answered([None], task) is None
    text = tasks.make("text", path="shakespeare")
    assert by_place.answered([True, False, None], text) == (
        "At 1 of 2 positions the token that follows is the one the model holds likeliest."
    ), "in running text another token is no wrong answer"


def test_of_single_inputs_whose_ends_are_unknown_there_is_no_interval_to_tell_apart() -> None:
    nothing = np.full(2, np.nan)
    difference = Measurement(
        "d", np.array([-1.0, -0.3]), ("place",), {"place": ("a", "b")}, "share", low=nothing, high=nothing
    )
    said = by_place.differs(difference)
    assert said is not None and "of single inputs there is no interval" in said
