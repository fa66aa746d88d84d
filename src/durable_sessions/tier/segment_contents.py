"""The catalog's rows for a segment: the size of its records, and where they are."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from durable_sessions.bucket.directory import Directory
from durable_sessions.tier.catalog import Sized
from durable_sessions.tier.catalog_view import Placed


class Contents(NamedTuple):
    """The rows of the catalog for one segment."""

    size: Sized
    places: Iterable[Placed]


def contents(path: str, directory: Directory, streams: Collection[int] | None = None) -> Contents:
    """Return the rows for a segment; the places of all its streams, or only of ``streams``."""
    size, runs = held(directory, streams)
    return Contents(Sized(path, size), [Placed(*run, path) for run in runs])


def held(
    directory: Directory, streams: Collection[int] | None = None
) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the size of a segment's records, and its gapless runs: stream, first position, next position."""
    size = sum(piece.size for stream in directory.streams for piece in directory.pieces(stream))
    runs = [
        (stream, first, following)
        for stream in directory.streams
        if streams is None or stream in streams
        for first, following in directory.runs(stream)
    ]
    return size, runs


class Places:
    """Consecutive records of a segment as rows, which are made each time that they are gone through."""

    def __init__(self, runs: Iterable[tuple[int, int, int]], path: str) -> None:
        self._runs = runs
        self._path = path

    def __iter__(self) -> Iterator[Placed]:
        path = self._path
        return (Placed(stream, first, following, path) for stream, first, following in self._runs)
