"""Not there yet."""

from __future__ import annotations

from app.state import current

current()
