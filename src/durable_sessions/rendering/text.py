"""Texts of strangers, made fit to be shown."""

import json
import re
import unicodedata

_ESCAPE_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    # Bounded, or a text that opens many and closes none would take quadratic time.
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, links, clipboard
    r"|\x1b[ -/]+[0-~]"  # character sets and the like
    r"|\x1b[0-Z\\-~]"
)
_LINE_ENDS = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_UNSAFE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f\x80-\x9f"  # control characters
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what makes text run the other way
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_SPACES = re.compile(r"\s+")


def clean(text: str) -> str:
    """Return a text that is safe to print: escape sequences are gone, other control characters visible."""
    # Nearly all texts; the patterns below take many times as long.
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPE_SEQUENCES.sub("", text))
    return _UNSAFE.sub(_visible, text)


def whole(text: str) -> str:
    """Return a text as it is, but without halves of surrogate pairs, which no encoding has a word for."""
    return text if text.isascii() else _SURROGATES.sub(_REPLACEMENT, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else _REPLACEMENT


def one_line(text: str, most: int = 120) -> str:
    """Return a clean text as one line of at most this many characters."""
    # Cut first: a text of megabytes is not cleaned for a line. The part is longer than the line, for escape
    # sequences and spaces vanish from it.
    line = _SPACES.sub(" ", clean(text[: 8 * most + 1_024])).strip()
    cut = len(line) > most or len(text) > 8 * most + 1_024
    return f"{line[: most - 1]}…" if cut else line


def width(text: str) -> int:
    """Return how many columns a line takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def compact(value: object) -> str:
    """Return a JSON value as clean text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return clean(value)
    return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def pretty(value: object) -> str:
    """Return a JSON value as clean, indented JSON."""
    return clean(json.dumps(value, ensure_ascii=False, indent=2))


def lines_of(text: str) -> list[str]:
    """Return the lines of a clean text; one newline at its end makes no line of its own."""
    return text.removesuffix("\n").split("\n")


def shortened(text: str, lines_max: int, characters_max: int) -> str:
    """Return a text whose middle is left out, with a line that says how much, if it is too long."""
    lines = lines_of(text)
    if len(lines) > lines_max:
        head = lines_max * 2 // 3
        tail = lines_max - head
        left_out = len(lines) - lines_max
        lines = [*lines[:head], f"… {left_out:,} {plural(left_out, 'line')} left out …", *lines[-tail:]]
    short = "\n".join(lines)
    if len(short) <= characters_max:
        return short
    head = characters_max * 2 // 3
    left_out = len(short) - characters_max
    return f"{short[:head]}\n… {left_out:,} characters left out …\n{short[head + left_out :]}"


def plural(count: int, noun: str) -> str:
    """Return a noun in the singular or the plural, as the count needs it."""
    return noun if count == 1 else f"{noun}s"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
