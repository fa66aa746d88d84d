"""Query strings: the parameters that a read understands, each at most once."""

from urllib.parse import unquote_to_bytes

from durable_sessions.errors import InvalidOffsetError, InvalidRequestError

_KNOWN = (b"offset", b"live", b"cursor", b"envelope")


def parse(query: bytes) -> dict[bytes, str]:
    """Return the parameters we know; unknown ones are ignored, repeated ones refused."""
    found: dict[bytes, str] = {}
    if not query:
        return found
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name not in _KNOWN:
            continue
        if name in found:
            raise InvalidRequestError(problem=f"The parameter {name.decode()} is given twice; send it once.")
        found[name] = _decode(value)
    if found.get(b"offset") == "":
        raise InvalidOffsetError(offset="")
    return found


def _decode(value: bytes) -> str:
    if b"%" in value or b"+" in value:
        value = unquote_to_bytes(value.replace(b"+", b" "))
    return value.decode("latin-1")
