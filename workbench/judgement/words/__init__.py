"""Sentences about results: the only place that writes them, a file a subject. Nothing is read back out of one."""
