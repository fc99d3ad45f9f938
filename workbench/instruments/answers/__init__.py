"""Instruments of the answers: how often they are right."""
