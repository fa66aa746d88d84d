"""Streams with events that were not sent to the search process yet, by workspace."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple


class Unsent(NamedTuple):
    """The first position of a stream that was not sent yet, and since when; 0 if that is unknown."""

    workspace: str
    start: int
    since_ms: int


class Backlog:
    """Holds each stream once. No lookup gets slower because there are many streams."""

    def __init__(self) -> None:
        self._unsent: dict[int, Unsent] = {}
        self._of: dict[str, dict[int, None]] = {}
        self._older: dict[str, int] = {}  # by workspace, how many streams have events of unknown age

    def __len__(self) -> int:
        return len(self._unsent)

    def __contains__(self, stream: object) -> bool:
        return stream in self._unsent

    def __iter__(self) -> Iterator[int]:
        return iter(self._unsent)

    def __getitem__(self, stream: int) -> Unsent:
        return self._unsent[stream]

    def get(self, stream: int) -> Unsent | None:
        """Return what was not sent of a stream, None if everything was."""
        return self._unsent.get(stream)

    def __setitem__(self, stream: int, unsent: Unsent) -> None:
        known = self._unsent.get(stream)
        if known is not None:
            self._count(known, -1)
        self._unsent[stream] = unsent
        self._of.setdefault(unsent.workspace, {})[stream] = None
        self._count(unsent, 1)

    def drop(self, stream: int) -> None:
        """Forget a stream."""
        known = self._unsent.pop(stream, None)
        if known is None:
            return
        self._count(known, -1)
        of = self._of[known.workspace]
        del of[stream]
        if not of:
            del self._of[known.workspace]

    def of(self, workspace: str) -> Mapping[int, None]:
        """Return the streams of a workspace, in the order in which they came."""
        return self._of.get(workspace, {})

    @property
    def has_older(self) -> bool:
        """Whether some streams have unsent events of unknown age, found by comparing with the index."""
        return bool(self._older)

    def since_ms(self, streams: Iterable[int]) -> int | None:
        """Return since when any of these streams has unsent events: 0 if unknown, None if none has."""
        known = (self._unsent[stream].since_ms for stream in streams if stream in self._unsent)
        return min(known, default=None)

    def workspace_since_ms(self, workspace: str) -> int | None:
        """Return the same as ``since_ms`` for all streams of a workspace."""
        if workspace in self._older:
            return 0
        return self.since_ms(
            islice(self.of(workspace), 1)
        )  # the oldest: streams are kept in the order in which they came

    def _count(self, unsent: Unsent, by: int) -> None:
        if unsent.since_ms:
            return
        count = self._older.get(unsent.workspace, 0) + by
        if count:
            self._older[unsent.workspace] = count
        else:
            del self._older[unsent.workspace]
