"""What every test may use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors gain nothing from threads, and busy ones slow each other down."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def numerics() -> dict[str, Any]:
    """Values computed independently in float64, which the mathematics must agree with."""
    return json.loads((Path(__file__).parent / "data" / "numerics.json").read_text(encoding="utf-8"))
