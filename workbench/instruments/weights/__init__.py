"""Instruments of the weights alone."""
