"""Instruments that decode the residual's layers: logit, tuned and Jacobian lens, and how lenses agree."""

from workbench.instruments.lens import jacobian_lens, logit_lens, tuned_lens

LENSES = {"logit": logit_lens, "tuned": tuned_lens, "Jacobian": jacobian_lens}
"""Name -> the lens. One that has to be made first for a model has `fit(model, subject, seed)`, which gives `lens`."""

__all__ = ["LENSES"]
