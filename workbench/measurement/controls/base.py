"""What a control is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.capture import Capture


@dataclass(frozen=True)
class Control:
    """A control: what an instrument measures where the thing that it looks for is absent.

    Attributes:
        words: its name in legends and captions.
        short: its name in narrow columns.
        of_capture: takes a capture and returns it with that one thing replaced at random, and the rest as it was; None
            for a control that is measured on other models (`untrained`).
    """

    words: str
    short: str
    of_capture: Callable[[Capture, torch.Generator], Capture] | None
