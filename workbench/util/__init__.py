"""What every room may use: files, look-ups, memory, messages for people, seeds, settings, ties, vmap."""
