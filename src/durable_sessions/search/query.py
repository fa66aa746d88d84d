"""Queries: words, phrases, prefixes and filters, parsed from one line of text.

================  ================================================================
``word``          may be there; the more of them and the rarer, the higher
``"a phrase"``    its words in this order
``+word``         must be there
``-word``         must not be there
``pref*``         any word that begins with ``pref``
``type:agent.*``  only events of this type; also ``name:bash`` and ``is:error``
================  ================================================================

Signs combine: ``+"a phrase"``, ``-type:span.*``, ``+auth*``. Of several filters on one field, one must match;
filters on different fields must all match. Anything else is taken as plain words.
"""

import re
import unicodedata
from itertools import groupby, pairwise
from typing import Literal

import msgspec

from durable_sessions.search import tokenizer

QUERY_CHARACTERS_MAX = 4_096
"""The rest of a longer query is ignored."""
CLAUSES_MAX = 64
"""The most distinct words, phrases and filters of one query; the rest is dropped."""
PHRASES_MAX = 32
"""The most of them that have several parts, which cost more to find."""
PHRASE_PARTS_MAX = 32
"""The longest phrase; one that is longer is cut."""
PREFIX_CHARACTERS_MIN = 2
"""A shorter prefix is a word."""

_COMMON_WORDS = (
    "a an and are as at be been but by did do does for from had has have he i in is it its me my of on or "
    "our she so than that the their then there these they this those to us was we were what when where which "
    "who will with you your"
)
COMMON_WORDS = frozenset(_COMMON_WORDS.split())
"""Words that nearly every text has: beside others they find nothing by themselves."""

Occur = Literal["may", "must", "not"]
Field = Literal["type", "name", "error"]


class Clause(msgspec.Struct, frozen=True, array_like=True):
    """Something to find in the text: parts that follow each other."""

    occur: Occur
    parts: tuple[str, ...]
    wholes: tuple[str, ...]
    """The same without splitting at capitals: ``github`` for ``git``, ``hub``."""
    is_prefix: bool = False
    """Whether the last part is only the beginning of one."""

    @property
    def is_common(self) -> bool:
        """Whether this is one of the words that nearly every text has."""
        return len(self.parts) == 1 and not self.is_prefix and self.parts[0] in COMMON_WORDS


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """Something that holds of the event: its type, the name of its tool, or that it is an error."""

    field: Field
    value: str = ""
    is_prefix: bool = False
    is_negated: bool = False


class Query(msgspec.Struct, frozen=True, array_like=True):
    """A parsed query."""

    clauses: tuple[Clause, ...] = ()
    filters: tuple[Filter, ...] = ()
    truncated: bool = False
    """Whether a limit was exceeded, so that a part was ignored."""

    @property
    def words(self) -> tuple[Clause, ...]:
        """Return the clauses that can match, whose words are highlighted."""
        return tuple(clause for clause in self.clauses if clause.occur != "not")


_TOKEN = re.compile(
    r"""(?P<sign>(?:[+-](?![+-]))?)
        (?: (?P<field>type|name|is):(?P<value>"[^"]+"|[^\s"]+)(?!\S)
          | "(?P<phrase>[^"]*)"(?=[\s.,;:!?)\]]|$)
          | (?P<word>\S+) )""",
    re.VERBOSE,
)
_QUOTATION_MARKS = str.maketrans("“”„«»", '"' * 5)
_OCCURS: dict[str, Occur] = {"+": "must", "-": "not", "": "may"}


def parse(q: str) -> Query:
    """Parse a line of text; whatever is not special syntax is a word."""
    # A lone surrogate could not be encoded for the search process; it becomes a question mark.
    line = q[:QUERY_CHARACTERS_MAX].encode(errors="replace").decode().translate(_QUOTATION_MARKS)
    line = unicodedata.normalize("NFC", line)
    found: dict[Clause | Filter, None] = {}
    for token in _TOKEN.finditer(line):
        # One more than is kept, to know that something was dropped.
        if len(found) > CLAUSES_MAX:
            break
        found.update(dict.fromkeys(_read(token)))
    kept = list(found)[:CLAUSES_MAX]
    phrases = [each for each in kept if isinstance(each, Clause) and len(each.parts) > 1]
    dropped = set(phrases[PHRASES_MAX:])
    return Query(
        tuple(each for each in kept if isinstance(each, Clause) and each not in dropped),
        tuple(each for each in kept if isinstance(each, Filter)),
        bool(dropped) or len(found) > CLAUSES_MAX or len(q) > QUERY_CHARACTERS_MAX,
    )


def _read(token: re.Match[str]) -> list[Clause] | list[Filter]:
    occur = _OCCURS[token["sign"]]
    if token["field"]:
        field_filter = _filter(token["field"], token["value"].strip('"'), occur == "not")
        if field_filter is not None:
            return [field_filter]
        # It looks like a filter and is none, such as the text "type:" in front of a quoted word: search for
        # its words.
        return _word(occur, f"{token['field']} {token['value']}")
    if token["phrase"] is not None:
        return _phrase(occur, token["phrase"])
    return _word(occur, token["word"])


def _filter(field: str, value: str, is_negated: bool) -> Filter | None:
    if field == "is":
        return Filter("error", is_negated=is_negated) if value.lower() == "error" else None
    plain = value.removesuffix("*")
    if not plain or "*" in plain:
        return None
    if field == "name":
        return Filter("name", plain.lower(), plain != value, is_negated)
    return Filter("type", plain, plain != value, is_negated)


def _phrase(occur: Occur, text: str) -> list[Clause]:
    return _clause(occur, tokenizer.parts(text), tokenizer.wholes(text), False)


def _word(occur: Occur, text: str) -> list[Clause]:
    parts = tokenizer.parts(text)
    wholes = tokenizer.wholes(text)
    is_prefix = text.endswith("*") and bool(parts) and len(parts[-1]) >= PREFIX_CHARACTERS_MIN
    # With a sign the whole run of characters is one phrase, and is found only as it stands.
    if occur == "may" and any(map(tokenizer.is_single, parts)):
        return _without_spaces(parts)
    return _clause(occur, parts, wholes, is_prefix)


def _clause(occur: Occur, parts: list[str], wholes: list[str], is_prefix: bool) -> list[Clause]:
    if not parts:
        return []
    return [Clause(occur, tuple(parts[:PHRASE_PARTS_MAX]), tuple(wholes[:PHRASE_PARTS_MAX]), is_prefix)]


def _without_spaces(parts: list[str]) -> list[Clause]:
    """Return pairs of neighbouring characters, since the borders of words are not known without spaces."""
    found: list[tuple[str, ...]] = []
    for are_single, run in groupby(parts, tokenizer.is_single):
        characters = tuple(run)
        pairs = (
            list(pairwise(characters))
            if are_single and len(characters) > 1
            else [(each,) for each in characters]
        )
        found.extend(pairs)
    return [Clause("may", pair, pair) for pair in found]
