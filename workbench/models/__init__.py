"""Models: one decoder, many attention variants, and the adapter that hooks them."""

from workbench.models.config import DecoderConfig
from workbench.models.decoder import Decoder

__all__ = ["Decoder", "DecoderConfig"]
