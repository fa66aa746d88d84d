"""Removes from ``views.sqlite`` what it has of deleted sessions and of erased events."""

import asyncio

from durable_sessions.limits import Limits
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.door import Streams
from durable_sessions.storage.turns import Turns


class ViewsCleaning:
    """Cleans the views of a partition; what it removes is not used any more in any case."""

    def __init__(self, streams: Streams, views: ViewsFile, turns: Turns, limits: Limits) -> None:
        self._streams = streams
        self._views = views
        self._turns = turns
        self._limits = limits

    async def run(self) -> None:
        """Clean again and again, often enough for the time in which deleted events must be gone."""
        while True:
            await self.clean()
            await asyncio.sleep(self._limits.delete_within_seconds / 4)

    async def clean(self) -> None:
        """Look at every stream that the file has something of."""
        turn = self._turns.begin()
        for number in await self._views.streams():
            view = self._streams.peek_id(number)
            is_gone = view is None or (view.removed and next(self._streams.forks(number), None) is None)
            erasures = None if view is None or is_gone else self._streams.erasures(view)
            await self._views.forget(number, erasures)
            if turn.over:
                await turn.rest()
        await self._views.empty_wal()
