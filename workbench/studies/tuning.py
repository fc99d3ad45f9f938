"""The settings with which each group of a contrast is asked, chosen before it is asked and on seeds of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.judgement.tuning import AS_PLANNED, Tried
from workbench.judgement.words.studies import what
from workbench.measurement import Measurement
from workbench.studies.contrasts import Contrast
from workbench.studies.study import Quantities


class Choices:
    """What was chosen for the groups of contrasts.

    Args:
        tried: for each group, and each quantity and place at which it is asked.
    """

    def __init__(self, tried: Iterable[Tried]) -> None:
        self.tried = {(one.group, one.quantity): one for one in tried}

    @staticmethod
    def of(
        contrasts: Iterable[Contrast], candidates: Mapping[str, Mapping[str, Quantities]], less: Sequence[str]
    ) -> Choices:
        """The best setting of each group for each contrast.

        Args:
            contrasts: those that will be asked.
            candidates: group -> setting -> what was measured of it.
            less: quantities of which the least is best.
        """
        tried = []
        for contrast in contrasts:
            quantity = contrast.asked.quantity
            for group, at in _places(contrast).items():
                means = _means(candidates.get(group, {}), quantity, at)
                if not means:
                    continue
                values = {name: float(mean.values) for name, mean in means.items()}
                best = (min if quantity in less else max)(values, key=values.__getitem__)
                units = next(iter(means.values())).units
                tried.append(
                    Tried(
                        group=group,
                        quantity=what(quantity, at),
                        settings=tuple(values),
                        chosen=best,
                        means=tuple(values.values()),
                        units=units,
                    )
                )
        return Choices(tried)

    def of_contrast(self, contrast: Contrast) -> dict[str, str]:
        """Group -> the setting with which a contrast is asked of it."""
        places = {group: (group, what(contrast.asked.quantity, at)) for group, at in _places(contrast).items()}
        return {group: self.tried[key].chosen if key in self.tried else AS_PLANNED for group, key in places.items()}

    def in_words(self, contrast: Contrast) -> dict[str, str]:
        """Group -> the setting in words, of those that are not asked as planned."""
        tried = {one.group: one for one in self.tried.values()}
        chosen = self.of_contrast(contrast).items()
        return {group: tried[group].alone(setting) for group, setting in chosen if setting != AS_PLANNED}


def _places(contrast: Contrast) -> dict[str, Mapping[str, Any]]:
    """Group -> where it is asked; a group that is compared with itself is tuned for the first of its places."""
    places: dict[str, Mapping[str, Any]] = {}
    for group, at in contrast.places:
        places.setdefault(group, at)
    return places


def _means(candidates: Mapping[str, Quantities], quantity: str, at: Mapping[str, Any]) -> dict[str, Measurement]:
    """Setting -> the mean that is asked for, of the settings that have one."""
    means = {}
    for name, quantities in candidates.items():
        try:
            mean = quantities[quantity].select(**at)
        except (KeyError, ValueError):  # such as a training step that other settings do not reach
            continue
        if not mean.dims and not math.isnan(float(mean.values)):
            means[name] = mean
    return means
