"""Pages of a list as JSON, built from items that are JSON already."""

from collections.abc import Sequence

import msgspec


def json_page(items: Sequence[bytes], **members: object) -> bytes:
    """Return ``{"data":[…],…}``; joined, since encoding a large page again would take many times as long."""
    rest = msgspec.json.encode(members)[1:-1]
    return b"".join((b'{"data":[', b",".join(items), b"],", rest, b"}"))
