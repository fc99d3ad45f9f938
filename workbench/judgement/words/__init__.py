"""The sentences: what was judged, in words, one file a subject."""
