"""Scans of all streams, those in memory and those that are not: a page at a time, beside other work.

Streams come into memory, leave it, and are created and removed between two pages. Those in memory are shown
first and remembered by number, so that the catalog, which has most of them too, adds only the others.
"""

from collections.abc import Iterator, Sequence

from durable_sessions.storage.archive import Archive
from durable_sessions.storage.door import ScannedStream
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.state import State

PATH_PAGE = 1_000
"""Paths that are looked at in one go."""


class StreamScan:
    """Finds streams by the beginning of their paths; those that are not in memory are not brought there."""

    def __init__(self, state: State, published: PublishedStreams, archive: Archive) -> None:
        self._state = state
        self._published = published
        self._archive = archive

    def stream_pages(self, prefix: str, limit: int) -> Iterator[Sequence[ScannedStream]]:
        """Yield all streams whose paths begin so, of all workspaces, those kept only for forks included.

        Others may work between two pages: what is there all the while is found once. A page may be empty.
        """
        hot = self._published.by_id
        found = list(hot.values())
        shown: set[int] = set()
        for start in range(0, len(found), limit):
            page = [
                ScannedStream(durable.stream, durable.tail)
                for durable in found[start : start + limit]
                if hot.get(durable.stream.id) is durable and durable.stream.key.path.startswith(prefix)
            ]
            shown.update(one.stream.id for one in page)
            yield page
        last: int | None = -1
        while last is not None:
            last, streams = self._archive.streams_after(last, prefix, limit)
            page = []
            for stream in streams:
                if stream.id not in shown and stream.id not in self._state.removed:
                    known = hot.get(stream.id)
                    page.append(ScannedStream(stream, stream.tail if known is None else known.tail))
            yield page

    def path_pages(self, workspace: str, prefix: str = "") -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's streams whose paths begin so, a page at a time.

        Others may work between two pages: what is there all the while is found, and nothing is loaded.
        """
        hot = list(self._published.by_key)
        shown: set[int] = set()
        for start in range(0, len(hot), PATH_PAGE):
            page = []
            for key in hot[start : start + PATH_PAGE]:
                if key.workspace == workspace and key.path.startswith(prefix):
                    durable = self._published.by_key.get(key)
                    if durable is not None and not durable.removed:
                        page.append((durable.stream.id, key.path))
            shown.update(number for number, _ in page)
            yield page
        after = ""
        while found := self._archive.paths_after(workspace, prefix, after, PATH_PAGE):
            # One that is in memory by now was perhaps not there when the others were looked at.
            yield [
                (number, path)
                for number, path in found
                if number not in shown and number not in self._state.removed and not self._is_gone(number)
            ]
            after = found[-1][1]

    def _is_gone(self, number: int) -> bool:
        durable = self._published.by_id.get(number)
        return durable is not None and durable.removed
