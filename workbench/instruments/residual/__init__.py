"""Instruments of the residual: its spectrum (entropy, effective rank, α-ReQ), geometry and projection on both bases."""
