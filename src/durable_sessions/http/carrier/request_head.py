"""Pure checks of a request head: forms of targets, sizes, methods."""

import re
from collections.abc import Collection

from durable_sessions.limits import Limits

# A token at the start of a request that is not one of the methods that the parser knows in all versions.
_UNKNOWN_METHOD = re.compile(
    rb"[\r\n]*(?!(?:GET|HEAD|POST|PUT|DELETE|OPTIONS)(?: |$))[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}(?: |$)"
)


class DiscardedTrailers(dict[bytes, bytes]):
    """Stores nothing: trailers must not be taken for headers, of this request or the next."""

    def __contains__(self, name: object) -> bool:
        return False

    def __setitem__(self, name: bytes, value: bytes) -> None:
        pass


def origin_form(target: bytes) -> bytes:
    """Return the path and query of an absolute target; ``*`` and other forms stay as they are."""
    scheme, separator, rest = target.partition(b"://")
    if not separator or not scheme.isalpha():
        return target
    start = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    path = rest[start:]
    return path if path.startswith(b"/") else b"/" + path


def below(target: bytes, base: bytes) -> bytes:
    """Return the target as it is below ``base``, with which it begins; as it is, if it only looks like it."""
    rest = target[len(base) :]
    if rest.startswith(b"/"):
        return rest
    return target if rest and not rest.startswith(b"?") else b"/" + rest


def fits(headers: dict[bytes, bytes], repeats: Collection[bytes], limits: Limits) -> bool:
    """Say whether the header lines are within the limits; ``repeats`` are the names of repeated lines."""
    size = sum(map(len, headers)) + sum(map(len, headers.values()))
    # Values of repeated headers were joined by ", ". On the wire there was another header line instead.
    size += sum(len(name) - len(b", ") for name in repeats)
    return size <= limits.header_bytes_max and len(headers) + len(repeats) <= limits.header_count_max


def has_unknown_method(data: bytes) -> bool:
    """Say whether input begins with a method that is well-formed, but none of those that are served."""
    return _UNKNOWN_METHOD.match(data) is not None


def without_upgrade(method: bytes, target: bytes, version: str, headers: dict[bytes, bytes]) -> bytes:
    """Return the head as bytes again, without the request to change the protocol."""
    kept = {name: value for name, value in headers.items() if name not in (b"connection", b"upgrade")}
    if b"close" in headers.get(b"connection", b"").lower():
        kept[b"connection"] = b"close"
    lines = [b"%b %b HTTP/%b\r\n" % (method, target, version.encode())]
    lines += [b"%b: %b\r\n" % header for header in kept.items()]
    return b"".join(lines) + b"\r\n"
