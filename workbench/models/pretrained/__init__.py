"""Models of Hugging Face: this library's attention variants in them.

Importing this registers every variant as an attention function of Transformers (see `attention_functions`).
"""

from workbench.models.pretrained.attention_functions import attention_of, register, set_attention

register()

__all__ = ["attention_of", "set_attention"]
