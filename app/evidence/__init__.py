"""Evidence: figures pinned on any page, kept with what they are of; they leave as one page."""

from __future__ import annotations

from workbench.app.evidence.collection import pin
from workbench.app.evidence.sidebar import show

__all__ = ["pin", "show"]
