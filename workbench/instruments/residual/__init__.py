"""Instruments of the residual: its spectrum (entropy, effective rank, anisotropy) and its projection on both bases."""
