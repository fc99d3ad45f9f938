"""The mathematics that `entropy`, `effective_rank`, `spectrum` and `anisotropy` share, free of models and captures."""
