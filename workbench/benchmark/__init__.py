"""Subjects whose truth is written down (`benchmark.subjects`), for methods that look for it."""
