"""Suggestions for misspelt words."""

from collections.abc import Sequence
from difflib import SequenceMatcher

PREFIX_CHARACTERS_MIN = 2
SIMILARITY_MIN = 0.6
COMPARABLE_MIN = 0.85
"""How similar another word must be, in relation to the nearest one, to be suggested beside it."""
_FAMILY_ENDS = ".:"


def near(given: str, known: Sequence[str], most: int = 1) -> list[str]:
    """Return the known words that begin like this one; or else similar ones, the nearest first.

    Those that are much less similar than the nearest are left out.
    """
    word = given.lower()
    longer = [one for one in known if one.startswith(word)] if len(word) >= PREFIX_CHARACTERS_MIN else []
    if longer:
        return longer[:most]
    similarity = {one: _similarity(word, one) for one in known}
    best = max(similarity.values(), default=0.0)
    least = max(SIMILARITY_MIN, best * COMPARABLE_MIN)
    found = [one for one in similarity if similarity[one] >= least]
    return sorted(found, key=lambda one: -similarity[one])[:most]


def nearest(given: str, known: Sequence[str], most: int = 1) -> str:
    """Return a question that suggests similar known words; empty if there are none."""
    found = near(given, known, most)
    return f"Did you mean {' or '.join(found)}?" if found else ""


def _similarity(word: str, other: str) -> float:
    """Return how similar two words are, from 0 to 1.

    Of two names in one family, such as agent.tool and agent.thought, only what follows is compared: two short
    names would otherwise be similar for their family alone.
    """
    begin = 0
    for at, (ours, theirs) in enumerate(zip(word, other, strict=False)):
        if ours != theirs:
            break
        if ours in _FAMILY_ENDS:
            begin = at + 1
    return SequenceMatcher(None, other[begin:], word[begin:]).ratio()
