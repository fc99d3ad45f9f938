"""Results by group: every example counts in its own group, and in no other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.measurement import Measurement, by_group

VALUES = np.array([[1.0, 2.0, 3.0, 10.0, np.nan], [0.0, 0.0, 6.0, 20.0, 7.0]])


def measured() -> Measurement:
    coords = {"layer": ["a", "b"], "example": range(5)}
    return Measurement("Entropy", VALUES, ("layer", "example"), coords, "nats", {"model": "m"})


def test_each_group_has_the_mean_of_its_own_examples_with_interval_and_n() -> None:
    found = by_group(measured(), [4, 4, 4, 2, 2], "length")
    assert found.dims == ("length", "layer") and found.coords["length"] == [2, 4]
    assert found.values.tolist() == [[10, 13.5], [2, 2]]
    assert found.n is not None and found.n.tolist() == [[1, 2], [3, 3]]
    alone = measured()
    part = Measurement("", VALUES[:, :3], alone.dims, {**alone.coords, "example": range(3)}, "nats").mean()
    assert found.low is not None and part.low is not None and found.low[1] == pytest.approx(part.low)
    assert found.settings == {"model": "m"} and found.units == "nats"


def test_groups_may_be_tensors_or_words_and_those_without_one_are_left_out() -> None:
    by_number = by_group(measured(), torch.tensor([4, 4, 4, 2, 2]))
    assert by_number.coords["group"] == [2, 4]
    by_word = by_group(measured(), ["long", "long", None, "short", None])
    assert by_word.coords["group"] == ["long", "short"] and by_word.values[:, 1].tolist() == [0, 20]


def test_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="has 5 examples, but there are 2 groups"):
        by_group(measured(), [1, 2])
    with pytest.raises(ValueError, match="no example belongs to a group"):
        by_group(measured(), [None] * 5)
    with pytest.raises(ValueError, match="no dim 'example'"):
        by_group(measured().mean(), [1])
