"""Captures built by hand, as for instruments."""

from __future__ import annotations

from tests.instruments.conftest import stage

__all__ = ["stage"]
