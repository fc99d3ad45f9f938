"""Sharing runs: export and import as a folder or a zip, push to and pull from the Hugging Face Hub.

A shared run is `config.json`, `metrics.jsonl`, `weights.safetensors`, `checkpoints/step-N.safetensors` and a model
card. A run that comes in may have been written by anyone: it is read as data, never as code, and every size is checked
before disk or memory is taken for it.
"""

from __future__ import annotations

from workbench.sharing.archive import export, unpack
from workbench.sharing.hub import SharingError, pull, push
from workbench.sharing.hugging_face import export_hugging_face
from workbench.sharing.model_card import card

__all__ = ["SharingError", "card", "export", "export_hugging_face", "pull", "push", "unpack"]
