"""Offsets on the wire: ``%016d_%016d``, an epoch (0 today) and a position.

Position counts messages in JSON streams and bytes in all others. Offsets sort as strings
in the order of the stream.
"""

import re

from durable_sessions.errors import InvalidOffsetError

_WIRE = re.compile(r"(\d{16})_(\d{16})")
_POSITION_LIMIT = 10**16


def encode(position: int) -> str:
    """Return the offset of a position."""
    assert 0 <= position < _POSITION_LIMIT
    return f"0000000000000000_{position:016d}"


def decode(offset: str) -> int:
    """Return the position of an offset; one of another epoch lies beyond every position."""
    match = _WIRE.fullmatch(offset)
    if match is None or not offset.isascii():
        raise InvalidOffsetError(offset=offset)
    epoch, position = int(match[1]), int(match[2])
    return position if epoch == 0 else _POSITION_LIMIT + position
