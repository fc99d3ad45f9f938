"""Models: one decoder, many attention variants, and the adapter that hooks them."""

from workbench.models.config import DecoderConfig
from workbench.models.decoder import Decoder
from workbench.models.own_model import MODELS, ModuleKind, OwnModel, OwnModelConfig, Parts

AnyModel = Decoder | OwnModel
"""What a run folder holds."""

__all__ = ["MODELS", "AnyModel", "Decoder", "DecoderConfig", "ModuleKind", "OwnModel", "OwnModelConfig", "Parts"]
