"""ChaCAL's Triton kernels against float64, under Triton's interpreter; and what decides whether they are used."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.interpreted_kernels import SIZES
from workbench.models.attention import chacal_gpu
from workbench.models.attention.chacal_rows import Shape, value_and_gradients

CPU, WHAT = torch.device("cpu"), ("eq5", False, 16, 16)  # a layer's form and diagonal, and its widths
CASES = list(itertools.product([sizes[0] for sizes in SIZES], ("eq5", "eq7"), (False, True)))


def with_triton(program: str, **environment: str) -> str:
    """What a program beside this file prints; skips where Triton is not installed."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed; make test-slow installs it")
    root = Path(__file__).parents[2]
    environment = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    command = [sys.executable, "-m", f"tests.models.{program}"]
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    return json.loads(with_triton("interpreted_kernels", TRITON_INTERPRET="1"))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "within"), [("float32", 2e-5), ("bfloat16", 2e-2)])
def test_value_and_gradients_are_those_of_float64(interpreted: dict[str, Any], dtype: str, within: float) -> None:
    """At ragged lengths from 1 to 200, in both equations, with the diagonal inside and without."""
    names = [f"{n}-{dtype}-{form}-{diagonal}" for n, form, diagonal in CASES]
    assert {name: interpreted[name] for name in names if not interpreted[name] <= within} == {}


@pytest.mark.slow
def test_the_check_at_first_use_passes_and_a_layer_runs_through_the_kernels(interpreted: dict[str, Any]) -> None:
    assert interpreted["agrees"] is True
    assert interpreted["layer"] <= 2e-2


@pytest.mark.slow
def test_the_kernels_compile_for_gpus(tmp_path: Path) -> None:
    told = with_triton("compiled_kernels", TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))
    assert len(told.splitlines()) == 24


def in_place_of_the_kernels(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    """The blocks, their query gradient off by a part of its size."""

    def outputs(q: Tensor, k: Tensor, v: Tensor, shape: Shape, span: int) -> tuple[Tensor, Tensor, Tensor]:
        return value_and_gradients(q, k, v, v, shape)[0], v, v

    def gradients(dy: Tensor, q: Tensor, k: Tensor, v: Tensor, *others: Any, span: int) -> Any:
        shape = others[-1]
        _, grad_q, grad_k, grad_v = value_and_gradients(q, k, v, dy, shape)
        return grad_q * (1 + off), grad_k, grad_v

    monkeypatch.setattr(chacal_gpu, "outputs", outputs)
    monkeypatch.setattr(chacal_gpu, "gradients", gradients)


def test_kernels_that_disagree_with_the_blocks_are_set_aside_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_the_kernels(monkeypatch, off=0.0)
    assert chacal_gpu.agrees.__wrapped__(CPU, torch.float32, *WHAT)
    in_place_of_the_kernels(monkeypatch, off=0.01)
    with pytest.warns(
        RuntimeWarning, match=r"not used on cpu: they are 1\.0e-02 from the blocks in torch\.float32, eq5"
    ):
        assert not chacal_gpu.agrees.__wrapped__(CPU, torch.float32, *WHAT)


def test_the_check_at_first_use_is_in_full_precision_within_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_the_kernels(monkeypatch, off=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert chacal_gpu.agrees.__wrapped__(CPU, torch.float32, *WHAT)


def test_kernels_that_fail_are_set_aside_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def outputs(*_: Any, **__: Any) -> Any:
        raise RuntimeError("out of resources\nand more")

    monkeypatch.setattr(chacal_gpu, "outputs", outputs)
    with pytest.warns(RuntimeWarning, match=r"they fail \(RuntimeError: out of resources\)\. It runs in blocks"):
        assert not chacal_gpu.agrees.__wrapped__(CPU, torch.float32, *WHAT)


def test_on_a_cpu_there_are_no_kernels() -> None:
    q = torch.randn(1, 4, 8)
    assert not chacal_gpu.usable(q, q, q, "eq5", False)
