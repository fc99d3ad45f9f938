"""What is tried but reached by no command, page, notebook or study. It may import any room, and no room imports it.

Each module says what would promote it into a room, or remove it.
"""
