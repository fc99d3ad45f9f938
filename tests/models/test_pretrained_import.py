"""What importing costs: TransformerLens is not needed to give a model another attention."""

from __future__ import annotations

import subprocess
import sys


def test_attention_functions_need_no_transformer_lens() -> None:
    code = """
import sys
import workbench.models.pretrained as pretrained
from transformers.modeling_utils import AttentionInterface
assert "chacal" in AttentionInterface() and "transformer_lens" not in sys.modules
assert callable(pretrained.load_model)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
