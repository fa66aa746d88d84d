"""Where bytes stop being JSON, and what to send instead, in the words of whoever sent them."""

import re

import msgspec

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x78\x01": "deflate",
    b"\x78\x5e": "deflate",
    b"\x78\x9c": "deflate",
    b"\x78\xda": "deflate",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
"""How packed bytes begin; none of it begins a JSON text."""
_MALFORMED = re.compile(r"JSON is malformed: (?P<why>.*?) \(byte (?P<byte>\d+)\)$")
_WORD = re.compile(rb"-?[A-Za-z_$][\w$.-]{0,19}|-?[0-9][\w.+-]{0,19}|\\u[0-9a-fA-F]{0,4}|\\.", re.ASCII)
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Escapes in texts; the group is half of a surrogate pair."""
_VALUES = {
    "none": "null",
    "nil": "null",
    "undefined": "null",
    "null": "null",
    "true": "true",
    "false": "false",
    "nan": "null or a number",
    "infinity": "null or a number",
    "inf": "null or a number",
}
"""What is meant by words that are values in other languages."""
_ADVICE = {
    "expected ':'": "send a colon between a name and its value",
    "expected ',' or ']'": "send a comma or the closing ] here",
    "expected ',' or '}'": "send a comma or the closing } here",
    "trailing comma in array": "leave out the comma before ]",
    "trailing comma in object": "leave out the comma before }",
    "object keys must be strings": "send names in double quotes",
    "expected '\"'": "send names in double quotes",
    "trailing characters": "send nothing after the value that the body is",
    "invalid number": "send a number as JSON writes it, such as 7, -0.5 or 1e9",
    "unexpected end of hex escape": "send four hexadecimal digits after \\u",
    "invalid escaped character": 'send a backslash as \\\\, and escape only ", \\, /, b, f, n, r, t and u',
}
"""What to send instead, by what the decoder finds."""

_BOTH_HALVES = "send both halves of a surrogate pair, or the character itself"
_ANY_VALUE = "send an object, a list, a number, true, false, null, or a text in double quotes"


def fault(body: bytes, error: Exception | None = None) -> str:
    """Return what keeps bytes from being JSON, as in ``line 2, column 5: found NaN; send null or a number``.

    ``error`` is what the decoder said, if it has been asked already.
    """
    if body.startswith(_BYTE_ORDER_MARK):
        return "it begins with a byte order mark; send UTF-8 without one"
    if not body.strip():
        return "it is empty; send a JSON value"
    if (
        packed := next((name for begin, name in _PACKED.items() if body.startswith(begin)), None)
    ) is not None:
        return f"it is packed with {packed}; unpack it, and send it without Content-Encoding"
    if (wrong := _encoding_fault(body)) is not None:
        return wrong
    found = _MALFORMED.match(str(error if error is not None else _error(body)))
    if found is None or "hex escape" in found["why"] or "surrogate" in found["why"]:
        # The decoder looks for the other half of a character, be it behind the end.
        half = next((match for match in _ESCAPES.finditer(body) if match[1]), None)
        if half is not None:
            return f"{place(body, half.start())}: found {half[0].decode()}; {_BOTH_HALVES}"
    if found is None:
        return f"it ends too early, at {place(body, len(body))}; send all of it"
    at = _begin(body, int(found["byte"]), found["why"])
    return f"{place(body, at)}: found {_found(body, at)}; {_advice(body, at, found['why'])}"


def _begin(body: bytes, at: int, why: str) -> int:
    """Return where what is wrong begins; the decoder stops behind it, or in the middle of a word."""
    if why == "trailing characters":
        return max(at - 1, 0)
    if why == "invalid character" and body[at : at + 1].isalpha():
        while at and body[at - 1 : at].isalpha():
            at -= 1
    return at


def place(body: bytes, at: int) -> str:
    """Return where a byte stands, as editors count it."""
    begin = body.rfind(b"\n", 0, at) + 1
    column = len(body[begin:at].decode(errors="replace")) + 1
    line = body.count(b"\n", 0, at) + 1
    return f"line {line}, column {column}"


def _encoding_fault(body: bytes) -> str | None:
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        return f"{place(body, error.start)}: found the byte {body[error.start]:#04x}; send text as UTF-8"
    return None


def _error(body: bytes) -> Exception | None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return error
    return None


def _found(body: bytes, at: int) -> str:
    word = _WORD.match(body, at)
    if word is not None:
        return word[0].decode()
    shown = body[at : at + 4].decode(errors="ignore")[:1]
    if not shown:
        return "the end"
    return shown if shown.isprintable() and shown != " " else f"the character U+{ord(shown):04X}"


def _advice(body: bytes, at: int, why: str) -> str:
    word = _WORD.match(body, at)
    if word is not None and (meant := _VALUES.get(word[0].decode().lower().lstrip("-"))) is not None:
        return f"send {meant}"
    if body[at : at + 1] == b"'":
        return "send texts and names in double quotes"
    if why == "invalid character" and b"" < body[at : at + 1] < b" ":
        return "send control characters escaped, such as \\n"
    if why == "trailing characters" and body[at : at + 1] == b"{":
        return "send one object, or several in a list: [{…},{…}]"
    return _ADVICE.get(why, _ANY_VALUE)
