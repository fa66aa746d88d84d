"""Scans of all streams, in memory or not: a page at a time, beside other work.

Between two pages, streams are loaded, evicted, created and removed. Those in memory come first and are
remembered by number, so that the catalog, which has most of them as well, adds only the others.
"""

from collections.abc import Iterator, Sequence

from durable_sessions.storage.archive import Archive
from durable_sessions.storage.door import ScannedStream
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.state import State

PATH_PAGE = 1_000
"""How many paths are examined per page."""


class StreamScan:
    """Finds streams by path prefix, without loading those that are not in memory."""

    def __init__(self, state: State, published: PublishedStreams, archive: Archive) -> None:
        self._state = state
        self._published = published
        self._archive = archive

    def stream_pages(self, prefix: str, limit: int) -> Iterator[Sequence[ScannedStream]]:
        """Yield all streams with a path prefix, of all workspaces, including those kept only for forks.

        Other work may run between two pages: a stream that exists all the time is found once. A page may be
        empty.
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
                    known = hot.get(stream.id)  # loaded since the list was made: its tail is the newer one
                    page.append(ScannedStream(stream, stream.tail if known is None else known.tail))
            yield page

    def path_pages(self, workspace: str, prefix: str = "") -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's streams with a path prefix, a page at a time.

        Other work may run between two pages: a stream that exists all the time is found. Nothing is loaded.
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
            # A stream that is in memory now may have been loaded after those in memory were listed.
            yield [
                (number, path)
                for number, path in found
                if number not in shown and number not in self._state.removed and not self._is_gone(number)
            ]
            after = found[-1][1]

    def _is_gone(self, number: int) -> bool:
        durable = self._published.by_id.get(number)
        return durable is not None and durable.removed
