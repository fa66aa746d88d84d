"""One process: what keeps its parts running."""
