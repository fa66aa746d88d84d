"""Splits text into words, in the same way for the index, for queries and for highlights.

A *part* is the smallest thing that can be searched for: ``checkAuthToken``, ``check_auth_token`` and
``check/auth-token`` are all made of ``check``, ``auth`` and ``token``. Letters and digits that belong
together stay together (``sha256``, ``E0308``, ``html5``). A word that is split only at its capitals is
also indexed as a *whole*, so that ``github`` finds ``GitHub``.

Scripts that are written without spaces between words (Chinese, Japanese, Thai …), and Korean, whose words
carry their particles, are split into single characters. Unlike pairs of characters these can be found one by
one, and a phrase of them is as exact. Text should be in Unicode's form NFC; each part is folded by NFKC and
case, so that ``Ｆｉｌｅ`` is ``file`` and ``STRASSE`` is ``straße``.

Blobs (base64, hex dumps, ``data:`` URLs) and parts longer than :data:`PART_CHARACTERS_MAX` are left out.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

PART_CHARACTERS_MAX = 64
"""A longer part is not indexed; a hexadecimal SHA-256 just fits."""

APART = "|"
"""Separates words in the index that are not adjacent in the text; not searchable itself."""

_LETTER, _PLURAL, _CAPITAL, _DIGIT, _SINGLE, _GAP = "asA0c "
_RUN = re.compile("c|[asA0]+")
_BEGINNING = re.compile("A(?:(?<=[as]A)|(?<=[A0]A)(?=a|s[as]))")

_LONG_RUN = b"x" * 60
"""A run of base64 characters, as long as a line of base64 usually is."""
_TOO_LONG_RUN = b"x" * (PART_CHARACTERS_MAX + 1)
_DUMP = re.compile(r"(?<![0-9A-Fa-f])(?:(?:[0-9A-Fa-f]{2}  ?){8,}|(?:[0-9A-Fa-f]{4} ){6,})")
_SHORT_DUMP = b"hh hh hh hh hh hh hh hh"
_LONG_DUMP = b"hhhh hhhh hhhh hhhh hhhh hhhh"

_SINGLES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),
    (0x3021, 0x30FF),  # Hiragana, Katakana
    (0x3105, 0x31FF),  # Bopomofo, Hangul, Katakana
    (0x3400, 0x9FFF),  # Han
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),  # half-width Katakana and Hangul
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),  # Han
)
_IGNORED_MARKS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x20DD, 0x20E4))
"""Variation selectors and enclosing marks: they decorate emoji, and no one searches for them."""


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _class_of(code: int) -> str:
    """Return the class of a character. A mark counts as a digit: it continues a word."""
    category = unicodedata.category(chr(code))
    if category[0] not in "LMN" or _within(code, _IGNORED_MARKS):
        return _GAP
    if _within(code, _SINGLES):
        return _SINGLE
    if category in ("Lu", "Lt"):
        return _CAPITAL
    if category[0] != "L":
        return _DIGIT
    return _PLURAL if chr(code) == "s" else _LETTER


class _Classes(dict[int, str]):
    """A table for ``str.translate`` that computes the class of a character on first use."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _class_of(code)
        return found


class _Spaced(dict[int, str]):
    """A table that leaves only letters and digits, with a space around each single character."""

    def __missing__(self, code: int) -> str:
        kind = _CLASSES[code]
        found = self[code] = {_GAP: " ", _SINGLE: f" {chr(code)} "}.get(kind, chr(code))
        return found


def _ascii_table(of: Callable[[str], str]) -> bytes:
    """Return a table for ``bytes.translate``; whatever is not ASCII becomes a space."""
    return bytes(ord(of(chr(code))) if code < 128 else ord(" ") for code in range(256))


_CLASSES = _Classes()
_SPACED = _Spaced()
_ASCII_CLASSES = _ascii_table(lambda each: _CLASSES[ord(each)])
_ASCII_LOWER = _ascii_table(lambda each: each.lower() if each.isalnum() else " ")
_ASCII_RUNS = _ascii_table(lambda each: "x" if each.isalnum() else " ")
_ASCII_BASE64 = _ascii_table(lambda each: "x" if each.isalnum() or each in "+/_=-" else " ")
_ASCII_HEX = _ascii_table(
    lambda each: "h" if each in "0123456789abcdefABCDEF" else " " if each == " " else "."
)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def parts(text: str) -> list[str]:
    """Return the parts of a text in their order, folded."""
    base, classes, fold = _prepared(text)
    return fold(_cut(base, _cuts(classes))).split()


def wholes(text: str) -> list[str]:
    """Return the words of a text in their order, folded, whatever capitals are in them."""
    base, _, fold = _prepared(text)
    return fold(base).split()


def indexed(text: str) -> str:
    """Return the text to index: all whole words, then the parts of those that have several."""
    base, classes, fold = _prepared(text)
    cuts = _cuts(classes)
    if not cuts:
        return fold(base)
    cut = f" {APART} ".join(_cut_runs(base, classes.replace(_SINGLE, _GAP), cuts))
    return f"{fold(base)} {APART} {cut if fold is str else _folded_apart(cut, fold)}"


def spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Return each part with where it begins and ends in the text."""
    raw = text.encode("ascii", "replace")
    base = _without_blobs(text, raw)
    if base.isascii():
        ascii_base = base.encode("ascii")
        classes = ascii_base.translate(_ASCII_CLASSES).decode("ascii")
        folded = ascii_base.lower().decode("ascii")
        for begin, end in _pieces(classes):
            if end - begin <= PART_CHARACTERS_MAX:
                yield folded[begin:end], begin, end
        return
    for begin, end in _pieces(base.translate(_CLASSES)):
        part = _folded(base[begin:end])
        if part:
            yield part, begin, end


def _pieces(classes: str) -> Iterator[tuple[int, int]]:
    """Return where each part begins and ends."""
    cuts = iter(_cuts(classes))
    cut = next(cuts, len(classes))
    for run in _RUN.finditer(classes):
        begin, end = run.span()
        while cut < end:
            yield begin, cut
            begin, cut = cut, next(cuts, len(classes))
        yield begin, end


def is_single(part: str) -> bool:
    """Say whether a part is a character of a script without spaces."""
    return len(part) == 1 and _CLASSES[ord(part)] == _SINGLE


def _prepared(text: str) -> tuple[str, str, Callable[[str], str]]:
    """Return a text without blobs, the classes of its characters, and what folds any slice of the text.

    Folding leaves parts with spaces between them. Most text has ASCII letters only, and that is folded in C.
    """
    raw = text.encode("ascii", "replace")
    without = _without_blobs(text, raw)
    if without is not text:
        raw = without.encode("ascii", "replace")
    others = "" if without.isascii() else "".join(_BEYOND_ASCII.findall(without))
    if any(_CLASSES[ord(other)] != _GAP for other in set(others)):
        return without, without.translate(_CLASSES), _fold
    fold = _short if _TOO_LONG_RUN in raw.translate(_ASCII_RUNS) else str
    return raw.translate(_ASCII_LOWER).decode("ascii"), raw.translate(_ASCII_CLASSES).decode("ascii"), fold


def _short(joined: str) -> str:
    return " ".join([part for part in joined.split() if len(part) <= PART_CHARACTERS_MAX])


def _fold(text: str) -> str:
    spaced = text.translate(_SPACED)
    folded = spaced.casefold()
    if unicodedata.is_normalized("NFKC", folded):
        return _short(folded)
    return " ".join(filter(None, map(_folded, spaced.split())))


def _folded(piece: str) -> str:
    """Return a piece of text folded; empty if it is too long or nothing is left of it."""
    part = piece.casefold()
    if not part.isascii() and not unicodedata.is_normalized("NFKC", part):
        part = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", piece).casefold())
        part = "".join(character for character in part if _CLASSES[ord(character)] != _GAP)
    return part if len(part) <= PART_CHARACTERS_MAX else ""


def _folded_apart(cut: str, fold: Callable[[str], str]) -> str:
    gap = f" {APART} "
    return gap.join([fold(each) for each in cut.split(gap)])


def _cuts(classes: str) -> list[int]:
    """Return where capitals begin a part: ``check|Auth``, ``HTTP|Server``, ``HTML5|Doc``, not ``URLs``."""
    if _CAPITAL not in classes:  # the pattern would find nothing, and takes long to do so
        return []
    return [match.start() for match in _BEGINNING.finditer(classes)]


def _cut(text: str, cuts: list[int]) -> str:
    if not cuts:
        return text
    return " ".join(text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True))


def _cut_runs(text: str, classes: str, cuts: list[int]) -> Iterator[str]:
    """Return the words that have cuts in them, cut."""
    end = 0
    begin = 0
    pieces: list[str] = []
    for cut in cuts:
        if cut >= end:
            if pieces:
                yield " ".join((*pieces, text[begin:end]))
            begin = classes.rfind(_GAP, 0, cut) + 1
            end = classes.find(_GAP, cut)
            end = len(classes) if end < 0 else end
            pieces = []
        pieces.append(text[begin:cut])
        begin = cut
    yield " ".join((*pieces, text[begin:end]))


def _without_blobs(text: str, raw: bytes) -> str:
    """Return the text with base64 and hex dumps replaced by spaces, so that positions stay the same."""
    signs = raw.translate(_ASCII_BASE64)
    if _LONG_RUN in signs:
        text = _without_base64(text, raw, signs)
    dump = raw.translate(_ASCII_HEX)
    if _SHORT_DUMP in dump or _LONG_DUMP in dump:
        text = _DUMP.sub(_blank_dump, text)
    return text


def _without_base64(text: str, raw: bytes, signs: bytes) -> str:
    pieces: list[str] = []
    done = 0
    begin = signs.find(_LONG_RUN)
    while begin >= 0:
        end = signs.find(b" ", begin)
        end = len(signs) if end < 0 else end
        if _is_random(raw[begin:end]) or raw[max(0, begin - 7) : begin] == b"base64,":
            pieces += (text[done:begin], " " * (end - begin))
            done = end
        begin = signs.find(_LONG_RUN, end)
    return "".join((*pieces, text[done:])) if pieces else text


def _is_random(run: bytes) -> bool:
    """Tell base64 from long paths and names: those have fewer capitals and digits, and more separators."""
    kinds = run.translate(_ASCII_CLASSES)
    capitals, digits = kinds.count(b"A"), kinds.count(b"0")
    small = kinds.count(b"a") + kinds.count(b"s")
    separators = run.count(b"/") + run.count(b"_") + run.count(b"-")
    return (
        capitals + digits > len(run) * 0.35
        and min(capitals, small) > len(run) * 0.1
        and len(run) > 12 * (1 + separators)
    )


def _blank_dump(match: re.Match[str]) -> str:
    """Blank bytes in hexadecimal, but not columns of decimal numbers."""
    return " " * len(match[0]) if not match[0].replace(" ", "").isdecimal() else match[0]
