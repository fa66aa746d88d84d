"""Names: which session a framework's object is, and the ids of its events."""

import hashlib
import re

SESSION_ID_MAX = 200
SLOT_PART_MAX = 120
HASHED = "%%"
"""What stands before the hash of a long part, and in no other."""
_ESCAPED = re.compile(r"[^A-Za-z0-9._-]")


def escaped(part: str) -> str:
    """Return a text with only ``A-Z a-z 0-9 . _ - @``; different texts stay different."""
    if not part:
        return "@"
    return _ESCAPED.sub(lambda match: "".join(f"@{byte:02X}" for byte in _utf8(match[0])), part)


def session_id(namespace: str, *parts: str) -> str:
    """Return the id of the session that keeps an object: ``langgraph:thread-1``; a long one is hashed."""
    name = ":".join((namespace, *map(escaped, parts)))
    if len(name) <= SESSION_ID_MAX:
        return name
    return f"{namespace}:@@{hashlib.sha256(name.encode()).hexdigest()}"


def event_id(letters: str, *key: str) -> str:
    """Return an event's id made from the framework's own key: the same object is stored once."""
    digest = hashlib.sha256()
    for part in key:
        encoded = _utf8(part)
        digest.update(b"%d:" % len(encoded) + encoded)
    return f"{letters}_{digest.hexdigest()[:40]}"


def slot(*parts: str) -> str:
    """Return a slot's name of up to five parts that may contain anything; a long part ends in a hash."""
    return "/".join(map(_slot_part, parts))


def _slot_part(part: str) -> str:
    name = _ESCAPED.sub(_percent, part)
    if len(name) <= SLOT_PART_MAX:
        return name
    return f"{name[:40]}{HASHED}{hashlib.sha256(name.encode()).hexdigest()}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in _utf8(match[0]))


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
