"""Panels that several pages share."""
