"""The words of what was judged: the only place that writes a sentence about a result, one file a subject."""
