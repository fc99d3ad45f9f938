"""One file a view; each draws one panel from a capture."""
