"""Helpers that every room may use: files, look-up by name, memory, messages for people, seeds, settings, ties, vmap."""
