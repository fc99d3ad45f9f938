"""Models: one decoder, many attention variants, and the adapter that hooks them."""

from typing import TYPE_CHECKING, Any

from workbench.models.config import DecoderConfig
from workbench.models.decoder import Decoder
from workbench.models.own_model import OwnModel
from workbench.models.own_model_config import MODELS, ModuleKind, Parts

AnyModel = Decoder | OwnModel
"""What a run folder holds."""

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked
else:
    AnyHooked = Any  # for annotations alone: TransformerLens takes seconds to import

__all__ = ["MODELS", "AnyHooked", "AnyModel", "Decoder", "DecoderConfig", "ModuleKind", "OwnModel", "Parts"]
