"""Suggestions for misspelt words."""

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(given: str, known: Sequence[str], most: int = 1) -> str:
    """Return a question that suggests similar known words; empty if there are none."""
    near = get_close_matches(given.lower(), known, n=most, cutoff=0.5)
    return f"Did you mean {' or '.join(near)}?" if near else ""
