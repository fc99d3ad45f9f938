"""Matrix entropy with kernels of distances, against a slow definition and where the answer is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from workbench.instruments import matrix_entropy
from workbench.util.seeds import generator

KERNELS = ["gaussian", "laplacian", "laplacian_l1"]
ALPHAS = [0.5, 1.0, 1.5, 2.0, 3.0, 9.0, math.inf]
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, "kernel test"), dtype=torch.float64)


def slow(z: Tensor, kernel: str, bandwidth: float | str, alpha: float, centre: bool, unit_rows: bool) -> float:
    """The definition, one pair of rows after the other."""
    x = z.numpy()
    x = x - x.mean(0) if centre else x
    x = x / np.linalg.norm(x, axis=1, keepdims=True) if unit_rows else x
    pairs = pdist(x, "cityblock" if kernel == "laplacian_l1" else "euclidean")
    sigma = np.median(pairs[pairs > 0]) if bandwidth == "median" else bandwidth
    scaled = squareform(pairs) / sigma
    p = np.linalg.eigvalsh(np.exp(-(scaled**2) / 2 if kernel == "gaussian" else -scaled)) / len(x)
    p = p[p > 1e-15]
    if alpha == 1:
        return float(-(p * np.log(p)).sum())
    return float(-np.log(p.max()) if math.isinf(alpha) else np.log((p**alpha).sum()) / (1 - alpha))


@each_kernel
@pytest.mark.parametrize("bandwidth", ["median", 0.7, 3])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("centre", "unit_rows"), [(False, False), (False, True), (True, True)])
def test_kernels_have_the_entropy_of_their_definition(
    kernel: Any, bandwidth: Any, alpha: float, centre: bool, unit_rows: bool
) -> None:
    z = rows(3, 8, 5)
    z[1, 3] = z[1, 6] = z[1, 0]  # equal rows, which the median leaves out
    found = matrix_entropy(z, alpha=alpha, centre=centre, unit_rows=unit_rows, kernel=kernel, bandwidth=bandwidth)
    expected = [slow(one, kernel, bandwidth, alpha, centre, unit_rows) for one in z]
    assert found.tolist() == pytest.approx(expected, abs=1e-6 if alpha < 1 else 1e-10)


@each_kernel
@pytest.mark.parametrize("alpha", ALPHAS)
def test_equal_rows_are_one_direction_and_distant_rows_are_n(kernel: Any, alpha: float) -> None:
    same = rows(1, 4).expand(6, 4)
    assert matrix_entropy(same, alpha=alpha, kernel=kernel).item() == pytest.approx(0, abs=1e-6)
    assert matrix_entropy(same, alpha=alpha, kernel=kernel, bandwidth=0.1).item() == pytest.approx(0, abs=1e-6)
    apart = 1e3 * torch.eye(6, dtype=torch.float64)
    found = matrix_entropy(apart, alpha=alpha, kernel=kernel, bandwidth=1.0)
    assert found.item() == pytest.approx(math.log(6), abs=1e-12)
    normalised = matrix_entropy(apart, alpha=alpha, kernel=kernel, bandwidth=1.0, normalise="log_t")
    assert normalised.item() == pytest.approx(1, abs=1e-12)


@each_kernel
def test_two_rows_one_bandwidth_apart_have_the_kernels_value_at_one(kernel: Any) -> None:
    """K = [[1, k], [k, 1]] has the eigenvalues 1 ± k."""
    z = torch.tensor([[0.0, 0.0], [3.0, 0.0]], dtype=torch.float64)
    k = math.exp(-0.5) if kernel == "gaussian" else math.exp(-1)
    p = np.array([1 + k, 1 - k]) / 2
    for bandwidth in ("median", 3.0):
        found = matrix_entropy(z, kernel=kernel, bandwidth=bandwidth)  # type: ignore[arg-type]
        assert found.item() == pytest.approx(-(p * np.log(p)).sum(), abs=1e-12)


@each_kernel
def test_shifting_changes_nothing_and_scaling_only_beside_a_fixed_bandwidth(kernel: Any) -> None:
    z = rows(7, 3)
    entropy = matrix_entropy(z, kernel=kernel).item()
    assert matrix_entropy(z + 5, kernel=kernel).item() == pytest.approx(entropy, abs=1e-10)
    assert matrix_entropy(z, kernel=kernel, centre=True).item() == pytest.approx(entropy, abs=1e-10)
    for scale in (1e-170, 1e-3, 1e170):
        assert matrix_entropy(z * scale, kernel=kernel).item() == pytest.approx(entropy, abs=1e-10)
    fixed = [matrix_entropy(z * scale, kernel=kernel, bandwidth=1.0).item() for scale in (1e-170, 0.1, 1, 10, 1e170)]
    assert fixed == sorted(fixed) and fixed[0] == pytest.approx(0) and fixed[-1] == pytest.approx(math.log(7))


def test_only_distances_by_coordinate_depend_on_the_basis() -> None:
    z = rows(6, 4)
    turned = z @ torch.linalg.qr(rows(4, 4, seed=1)).Q
    for kernel in ("gaussian", "laplacian"):
        expected = matrix_entropy(z, kernel=kernel).item()  # type: ignore[arg-type]
        assert matrix_entropy(turned, kernel=kernel).item() == pytest.approx(expected)  # type: ignore[arg-type]
    moved = matrix_entropy(turned, kernel="laplacian_l1") - matrix_entropy(z, kernel="laplacian_l1")
    assert abs(moved.item()) > 1e-3


@each_kernel
@pytest.mark.parametrize("bandwidth", ["median", 1.5])
@pytest.mark.parametrize("alpha", [1.0, 2.0, 2.5, math.inf])
def test_gradients_through_kernels_are_those_of_finite_differences(kernel: Any, bandwidth: Any, alpha: float) -> None:
    z = rows(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: matrix_entropy(z, alpha=alpha, kernel=kernel, bandwidth=bandwidth), z)


@each_kernel
def test_single_precision_is_computed_in_double(kernel: Any) -> None:
    z = rows(2, 6, 4).float()
    found = matrix_entropy(z, kernel=kernel)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), matrix_entropy(z.double(), kernel=kernel), atol=1e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rbf"}, "unknown kernel 'rbf'; there is: linear, gaussian, laplacian, laplacian_l1"),
        ({"kernel": "gaussian", "bandwidth": 0}, "'median' or a positive number, not 0"),
        ({"kernel": "gaussian", "bandwidth": "mean"}, "'median' or a positive number, not 'mean'"),
        ({"kernel": "gaussian", "bandwidth": math.nan}, "'median' or a positive number, not nan"),
        ({"kernel": "laplacian", "normalise": "log_d"}, "at most log pos, whatever d"),
        ({"kernel": "laplacian", "normalise": "log_min"}, "at most log pos, whatever d"),
    ],
)
def test_wrong_kernels_and_what_does_not_go_with_them_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        matrix_entropy(rows(3, 3), **change)


@each_kernel
@pytest.mark.parametrize("bandwidth", ["median", 1.0])
def test_representations_that_are_not_finite_are_refused(kernel: Any, bandwidth: Any) -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        matrix_entropy(rows(3, 3) / 0, kernel=kernel, bandwidth=bandwidth)
