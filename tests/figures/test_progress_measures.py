"""Progress measures: when two planted curves are half way, what is said of them, and what is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from workbench import figures
from workbench.inspection.progress_measures import CURVES, other_frequencies
from workbench.judgement.grokking import HalfWay, early_rise, half_way
from workbench.judgement.words.figures import early_rise_in_words, half_way_in_words
from workbench.measurement import Measurement

STEPS = (0, 10, 20, 30, 40)
BY_HEART = (0.0, 1.0, 1.0, 1.0, 1.0)


def measured(excluded: Sequence[float], right: Sequence[float], frequencies: Sequence[int] = (2, 5)) -> Measurement:
    """Progress measures of which the excluded loss and the test accuracy are planted."""
    rows = {curve: [0.0] * len(STEPS) for curve in CURVES} | {
        "excluded loss": excluded,
        "test accuracy": right,
        "train accuracy": BY_HEART,
    }
    return Measurement(
        name="Progress measures",
        values=np.array([rows[curve] for curve in CURVES], dtype=float),
        dims=("curve", "step"),
        coords={"curve": CURVES, "step": STEPS},
        units="nats or share",
        settings={"model": "planted", "frequencies": list(frequencies), "p": 11},
    )


RISING = (0.0, 0.0, 0.2, 0.9, 1.0)


@pytest.mark.parametrize(
    ("excluded", "words", "found"),
    [
        ((4, 1, 2.5, 3, 3), "1 checkpoint earlier", HalfWay(10, 30, 2, 20, 30)),
        ((4, 1, 1, 3, 3), "at the same checkpoint", HalfWay(10, 30, 2, 30, 30)),
        ((4, 3, 2, 1, 3), "does not rise", HalfWay(30, 30, 0, None, 30)),
    ],
)
def test_the_order_of_two_curves_is_told_as_the_checkpoints_have_it(
    excluded: Sequence[float], words: str, found: HalfWay
) -> None:
    m = measured(excluded, RISING)
    assert half_way(m) == found
    assert words in half_way_in_words(m, found)


def test_a_loss_that_follows_is_said_to_be_later() -> None:
    m = measured((4, 1, 1.1, 1.2, 3), (0, 0.1, 0.8, 0.89, 0.95))
    assert half_way(m) == HalfWay(10, 40, 2, 40, 20)
    assert half_way_in_words(m, half_way(m)).endswith("the loss 2 checkpoints later.")


@pytest.mark.parametrize(("right", "words"), [((0, 0.1, 0.2, 0.4, 0.5), "never reaches 90%"), ([1.0] * 5, "already")])
def test_no_order_is_told_of_a_run_that_did_not_grok_while_it_was_watched(right: Sequence[float], words: str) -> None:
    m = measured((4, 1, 2, 3, 3), right)
    assert half_way(m) is None and words in half_way_in_words(m, None)


def test_the_control_has_as_many_frequencies_and_none_of_the_key_ones() -> None:
    assert other_frequencies(measured(RISING, RISING, (2, 5))) == [1, 4]
    assert other_frequencies(measured(RISING, RISING, (1, 2, 3, 4))) == [5], "there is only one other"


def test_every_curve_is_drawn_and_the_control_of_two_dotted() -> None:
    m = measured((4, 1, 2, 3, 3), RISING)
    figure = figures.progress_measures(m, measured((4, 4, 4, 4, 4), RISING, (1, 4)))
    drawn = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert len(figure.data) == len(CURVES) + 2 and len(set(drawn)) == len(drawn)
    excluded, control = (next(t for t in figure.data if t.name.startswith(f"excluded{end}")) for end in (":", ","))
    assert list(excluded.y) == [4, 1, 2, 3, 3] and list(control.y) == [4] * 5 and control.line.dash == "dot"
    assert "control: 1, 4" in figure.layout.title.subtitle.text
    assert len(figures.progress_measures(m).data) == len(CURVES)


@pytest.mark.parametrize(
    ("excluded", "right", "rise"),
    [
        ((9, 2, 1, 3, 0.5), (0, 0.1, 0.2, 0.4, 0.9), (10, 30, 2)),
        ((9, 3, 2, 1, 5), (0, 0.1, 0.2, 0.4, 0.9), (10, 30, 0)),  # it rises with test accuracy, not before
        ((9, 1, 2, 1, 5), (0, 0.1, 0.2, 0.4, 0.4), (10, 40, 4)),  # never half: all that was watched
        ((9, 1, 2, 3, 4), (0, 0.1, 0.6, 0.9, 1.0), None),  # one checkpoint lies between
    ],
)
def test_the_rise_before_test_accuracy_is_between_the_two_accuracies(
    excluded: Sequence[float], right: Sequence[float], rise: tuple[int, int, float] | None
) -> None:
    m = measured(excluded, right)
    assert early_rise(m) == rise
    flat = measured([1.0] * 5, right)
    words = (
        "nothing is known" if rise is None else f"rises by {rise[-1]:.2f} nats, that without other frequencies by 0.00"
    )
    assert words in early_rise_in_words(m, flat)
