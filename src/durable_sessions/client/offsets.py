"""Offsets on the wire: an epoch, which is 0, and a position."""


def of(position: int) -> str:
    """Return the offset of a position, counted from 0."""
    return f"{0:016d}_{position:016d}"


def position(offset: str) -> int:
    """Return the position of an offset."""
    return int(offset.rpartition("_")[2])
