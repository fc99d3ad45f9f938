"""Models of Hugging Face: this library's attention variants in them, and they as subjects of its instruments.

Importing this registers every variant as an attention function of Transformers (see `attention_functions`). What needs
TransformerLens too, which takes seconds to import, is imported on first use.
"""

from typing import TYPE_CHECKING, Any

from workbench.models.pretrained.attention_functions import attention_of, register, set_attention

if TYPE_CHECKING:
    from workbench.models.pretrained.loading import load_model
    from workbench.models.pretrained.model import Pretrained

register()

__all__ = ["Pretrained", "attention_of", "load_model", "set_attention"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.models.pretrained import loading, model

    return {"Pretrained": model.Pretrained, "load_model": loading.load_model}[name]
