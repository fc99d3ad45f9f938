"""Fields of the explorer's pages; what they hold is in the URL."""
