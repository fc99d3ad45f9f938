"""What a control is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.capture import Capture


@dataclass(frozen=True)
class Control:
    """Something that is measured in the same way, and in which what is claimed is not there.

    Attributes:
        words: what legends and captions call it.
        short: the same for narrow columns.
        of_capture: changes a capture in the one thing that is claimed of it, and leaves the rest; None where the
            measure is taken on other models in place of the run's own.
    """

    words: str
    short: str
    of_capture: Callable[[Capture, torch.Generator], Capture] | None
