"""Suggestions for misspelt words."""

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches

PREFIX_CHARACTERS_MIN = 2
SIMILARITY_MIN = 0.5
COMPARABLE_MIN = 0.85
"""How similar another word must be, in relation to the nearest one, to be suggested beside it."""


def near(given: str, known: Sequence[str], most: int = 1) -> list[str]:
    """Return the known words that begin like this one; or else similar ones, the nearest first.

    Those that are much less similar than the nearest are left out.
    """
    word = given.lower()
    longer = [one for one in known if one.startswith(word)] if len(word) >= PREFIX_CHARACTERS_MIN else []
    if longer:
        return longer[:most]
    found = get_close_matches(word, known, n=most, cutoff=SIMILARITY_MIN)
    similarity = {one: SequenceMatcher(None, one, word).ratio() for one in found}
    return [one for one in found if similarity[one] >= similarity[found[0]] * COMPARABLE_MIN]


def nearest(given: str, known: Sequence[str], most: int = 1) -> str:
    """Return a question that suggests similar known words; empty if there are none."""
    found = near(given, known, most)
    return f"Did you mean {' or '.join(found)}?" if found else ""
