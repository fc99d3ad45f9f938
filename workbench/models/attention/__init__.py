"""Attention variants. A new one is one file with an `Attention` subclass and one entry in `ATTENTION`."""

from __future__ import annotations

from workbench.models.attention.base import Attention
from workbench.models.attention.chacal import ChacalAttention, chacal_attention
from workbench.models.attention.learned_chacal import LearnedChacalAttention
from workbench.models.attention.scalable import ScalableAttention
from workbench.models.attention.standard import StandardAttention
from workbench.models.attention.tempered import TemperedAttention, TemperedChacalAttention, tempered_attention

ATTENTION: dict[str, type[Attention]] = {
    "standard": StandardAttention,
    "tempered": TemperedAttention,
    "scalable": ScalableAttention,
    "chacal": ChacalAttention,
    "learned_chacal": LearnedChacalAttention,
    "tempered_chacal": TemperedChacalAttention,
}

__all__ = ["ATTENTION", "Attention", "chacal_attention", "tempered_attention"]
