"""Instruments that decode the residual's layers: logit lens, tuned lens, and how lenses agree."""
