"""Captures made by hand, as those of the instruments' tests."""

from tests.instruments.conftest import stage

__all__ = ["stage"]
