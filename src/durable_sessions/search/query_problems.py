"""Filters that a query misspells: refused with the nearest, because as words they would find nothing.

Text that only contains a colon is none of these: ``error: foo``, ``http://x``, ``std::vector``, ``file:10``.
In quotation marks, everything is words.
"""

import re

from durable_sessions.search import tokenizer

FIELDS = ("type", "name", "is")
PARAMETERS = ("role", "session", "after", "before")
"""Parameters of a search that are easily taken for fields of the query."""
_FILTER = re.compile(r'(?<!\S)(?P<given>[+-]?(?P<field>[A-Za-z_]{2,20}):(?P<value>[^\s":/][^\s"]*))(?!\S)')
_SHOWN_CHARACTERS_MAX = 40
_PHRASE = re.compile(r'["“”„«»][^"“”„«»]*["“”„«»]')


def problem_of(q: str) -> str | None:
    """Return what is wrong with a filter of a query, and what to send instead; None if nothing is."""
    for found in _FILTER.finditer(_PHRASE.sub(lambda phrase: " " * len(phrase[0]), q)):
        field, value = found["field"].lower(), found["value"]
        said = _problem(field, value)
        if said is not None:
            return f"{found['given']}: {said} To look for these words, put them in quotation marks."
    return None


def without_words(q: str) -> str:
    """Return what is wrong with a query of signs, or of words that no index has, and what to send instead."""
    shown = q.strip()[:_SHOWN_CHARACTERS_MAX]
    if any(character.isascii() and character.isalnum() for character in q):
        most = tokenizer.PART_CHARACTERS_MAX
        return f"Words of more than {most} characters, such as {shown}…, are in no index. Send shorter ones."
    return (
        f"There is no word in the query {shown}: signs alone find nothing. "
        "Send words to look for, such as timeout, or a filter, such as is:error."
    )


def _problem(field: str, value: str) -> str | None:
    if field == "is" and value.lower() != "error":
        return "the only filter of this kind is is:error."
    if field in FIELDS:
        return None
    if field in PARAMETERS:
        return f"{field} is no field of a query; send {field}={value} beside it, with ds --{field} {value}."
    for known in ("type", "name"):
        if _is_slip(field, known):
            return f"there is no field {field}; did you mean {known}:{value}?"
    return None


def _is_slip(given: str, known: str) -> bool:
    """Say whether one letter too many or too few, or two swapped ones, are all that is different."""
    if abs(len(given) - len(known)) == 1:
        longer, shorter = sorted((given, known), key=len, reverse=True)
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    if len(given) != len(known) or given == known:
        return False
    swapped = (known[:at] + known[at + 1] + known[at] + known[at + 2 :] for at in range(len(known) - 1))
    return given in swapped
