"""The settings of the measures of the residual's spectrum, which a page's panels share: all of them are in the URL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from workbench.app.fields import widgets as fields
from workbench.app.fields.widgets import choose
from workbench.instruments.residual import alpha_req, anisotropy, curvature, effective_rank, entropy, spectrum
from workbench.measurement import Measurement

MEASURES: dict[str, tuple[str, Callable[..., Measurement]]] = {
    "entropy": ("matrix entropy", entropy.measure),
    "effective_rank": ("effective rank", effective_rank.measure),
    "anisotropy": ("anisotropy", anisotropy.measure),
    "alpha_req": ("α-ReQ", alpha_req.measure),
    "curvature": ("curvature", curvature.measure),
    "spectrum": ("spectrum", spectrum.measure),
}
"""Instrument -> its name in words, and what measures it."""

ALPHAS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, math.inf)
KERNELS = {
    "linear": "linear: inner products",
    "gaussian": "Gaussian",
    "laplacian": "Laplacian",
    "laplacian_l1": "Laplacian, L1 distances",
}
NORMALISERS = {
    "nats": "none (nats)",
    "log_t": "log of the tokens",
    "log_d": "log of the width",
    "log_min": "log of the smaller",
}
OF = {"singular_values": "singular values", "eigenvalues": "eigenvalues"}
TOKENS = {
    "all": "all tokens",
    "input": "the input: before the first answer",
    "output": "the output: from there on",
    "range": "a range",
}


CENTRE = "Subtract the mean over the tokens first, so that a direction that all tokens share does not count."
UNIT = "Then scale each token to length 1, so that long vectors count as much as short ones."


def choose_measure(place: Any) -> tuple[str, dict[str, Any]]:
    """Fields for an instrument and every setting of it."""
    row = place.container(horizontal=True, vertical_alignment="bottom")
    name = choose("Measure", list(MEASURES), "entropy_measure", "entropy", lambda m: MEASURES[m][0], row, width=190)
    tokens = choose("Over", list(TOKENS), "entropy_tokens", "all", TOKENS.__getitem__, row, width=270)
    positions: Any = tokens
    if tokens == "range":
        positions = tuple(
            fields.number(label, 0, None, key, None, row, placeholder=placeholder, width=140)
            for label, key, placeholder in (("From token", "entropy_from", "0"), ("up to", "entropy_to", "the end"))
        )
    settings: dict[str, Any] = {"positions": positions}
    if name in ("anisotropy", "curvature"):
        return name, settings
    row = place.container(horizontal=True, vertical_alignment="bottom")
    if name == "alpha_req":
        settings["centre"] = fields.toggle("Centre", "entropy_centre", row, CENTRE, default=True)
        return name, settings
    if name == "entropy":
        orders = {alpha: "∞" if math.isinf(alpha) else f"{alpha:g}" for alpha in ALPHAS}
        settings["alpha"] = choose("Order α", ALPHAS, "entropy_alpha", 1.0, orders.__getitem__, row, width=90)
    if name == "effective_rank":
        values = choose("Of", list(OF), "entropy_of", "singular_values", OF.__getitem__, row, width=190)
        settings["of"] = values
    else:
        settings |= _kernel(row)
    if name == "entropy":
        possible = ["nats", "log_t"] if settings["kernel"] != "linear" else list(NORMALISERS)
        by = choose("Normalised by", possible, "entropy_normalise", "nats", NORMALISERS.__getitem__, row, width=175)
        settings["normalise"] = None if by == "nats" else by
    settings["centre"] = fields.toggle("Centre", "entropy_centre", row, CENTRE)
    settings["unit_rows"] = fields.toggle("Unit rows", "entropy_unit", row, UNIT)
    return name, settings


def _kernel(row: Any) -> dict[str, Any]:
    kernel = choose("Kernel", list(KERNELS), "entropy_kernel", "linear", KERNELS.__getitem__, row, width=190)
    if kernel == "linear":
        return {"kernel": kernel}
    sigma = fields.number(
        "Bandwidth σ",
        0.01,
        1e4,
        "entropy_sigma",
        None,
        row,
        placeholder="median",
        width=130,
        help="In units of the residual; by default the median distance between the sequence's tokens.",
    )
    return {"kernel": kernel, "bandwidth": "median" if sigma is None else sigma}
