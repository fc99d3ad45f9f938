"""Models of Hugging Face: this library's attention variants in them.

Importing this registers every variant as an attention function of Transformers (see `attention_functions`).
"""

from workbench.models.pretrained.attention_functions import attention_of, register, set_attention
from workbench.models.pretrained.loading import load_model
from workbench.models.pretrained.model import Pretrained

register()

__all__ = ["Pretrained", "attention_of", "load_model", "set_attention"]
