"""Sentences made of parts."""

from __future__ import annotations


def capitalised(text: str) -> str:
    """A text with its first letter in upper case, and the rest as it is."""
    return text[:1].upper() + text[1:]
