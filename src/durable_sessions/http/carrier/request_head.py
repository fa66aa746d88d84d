"""What can be said of the head of a request by looking at it: forms of targets, sizes, methods."""

import re
from collections.abc import Collection

from durable_sessions.limits import Limits

# A token at the start of a request that is none of the methods the parser certainly knows.
_UNKNOWN_METHOD = re.compile(
    rb"[\r\n]*(?!(?:GET|HEAD|POST|PUT|DELETE|OPTIONS)(?: |$))[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}(?: |$)"
)


class DiscardedTrailers(dict[bytes, bytes]):
    """Keeps nothing: trailers must not pass for headers, of this request or the next."""

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


def fits(headers: dict[bytes, bytes], repeats: Collection[bytes], limits: Limits) -> bool:
    """Say whether header lines are few and short enough; ``repeats`` are the names that came again."""
    size = sum(map(len, headers)) + sum(map(len, headers.values()))
    # The values of a repeated name have been joined, so its name and not the joint came over the wire.
    size += sum(len(name) - len(b", ") for name in repeats)
    return size <= limits.header_bytes_max and len(headers) + len(repeats) <= limits.header_count_max


def has_unknown_method(data: bytes) -> bool:
    """Say whether input begins with a method that is well-formed, but none of those that are served."""
    return _UNKNOWN_METHOD.match(data) is not None


def without_upgrade(method: bytes, target: bytes, version: str, headers: dict[bytes, bytes]) -> bytes:
    """Return a head, as bytes again, that does not ask to change the protocol any more."""
    kept = {name: value for name, value in headers.items() if name not in (b"connection", b"upgrade")}
    if b"close" in headers.get(b"connection", b"").lower():
        kept[b"connection"] = b"close"
    lines = [b"%b %b HTTP/%b\r\n" % (method, target, version.encode())]
    lines += [b"%b: %b\r\n" % header for header in kept.items()]
    return b"".join(lines) + b"\r\n"
