"""The catalog's rows for a segment: the size of its records, and where they are."""

from collections.abc import Collection
from typing import NamedTuple

from durable_sessions.bucket.directory import Directory
from durable_sessions.tier.catalog import Sized
from durable_sessions.tier.catalog_view import Placed


class Contents(NamedTuple):
    """The rows of the catalog for one segment."""

    size: Sized
    places: list[Placed]


def contents(path: str, directory: Directory, streams: Collection[int] | None = None) -> Contents:
    """Return the rows for a segment; the places of all its streams, or only of ``streams``."""
    size = sum(piece.size for stream in directory.streams for piece in directory.pieces(stream))
    places = [
        Placed(stream, first, following, path)
        for stream in directory.streams
        if streams is None or stream in streams
        for first, following in directory.runs(stream)
    ]
    return Contents(Sized(path, size), places)
