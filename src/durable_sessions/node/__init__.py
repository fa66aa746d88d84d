"""The composition root: puts one process together and keeps its parts running."""
