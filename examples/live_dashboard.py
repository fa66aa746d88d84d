"""A dashboard in the terminal: the newest sessions, what they do, and how fast.

``python examples/live_dashboard.py`` follows the sessions live, each over one stream that the client keeps up
through every disconnect. Ctrl-C ends it. ``--once`` prints one picture and ends.
"""

import argparse
import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from durable_sessions import AsyncClient
from durable_sessions.client.errors import ClientError, NotFoundError
from durable_sessions.client.event import Event
from durable_sessions.client.info import SessionInfo

LOOKS_SECONDS = 2.0
"""How often the list of sessions is asked for."""

RATE_SECONDS = 10.0
"""The time over which events per second are counted."""

STYLES = {"running": "green", "rescheduling": "yellow", "terminated": "red"}


@dataclass
class Row:
    """A session on the screen: what the server said of it, and what was seen since."""

    info: SessionInfo
    last: Event | None = None
    seen: int = 0
    arrivals: deque[float] = field(default_factory=deque)

    @property
    def count(self) -> int:
        """How many events the session has."""
        return max(self.info.event_count, self.seen)

    def arrived(self, event: Event, now: float) -> None:
        """Take notice of an event."""
        self.last, self.seen = event, event.position + 1
        self.arrivals.append(now)

    def rate(self, now: float) -> float:
        """Return the events per second of late."""
        while self.arrivals and self.arrivals[0] < now - RATE_SECONDS:
            self.arrivals.popleft()
        return len(self.arrivals) / RATE_SECONDS


class Board:
    """The sessions that are shown, and a follower for each."""

    def __init__(self, client: AsyncClient, size: int) -> None:
        self._client = client
        self._size = size
        self._followers: dict[str, asyncio.Task[None]] = {}
        self.rows: dict[str, Row] = {}
        self.trouble = ""

    async def look(self) -> None:
        """Ask for the newest sessions; forget those that are no longer among them."""
        newest = {info.id: info async for info in self._client.sessions.list(limit=self._size)}
        for gone in self.rows.keys() - newest.keys():
            del self.rows[gone]
            await self._leave(gone)
        for id, info in newest.items():  # noqa: A001
            if id in self.rows:
                self.rows[id].info = info
            else:
                self.rows[id] = Row(info)
                with contextlib.suppress(NotFoundError):  # deleted since it was listed
                    await self._find_last(self.rows[id])

    async def watch(self) -> None:
        """Keep the list fresh and follow what is in it, for ever."""
        while True:
            try:
                await self.look()
                self.trouble = ""
            except ClientError as error:
                self.trouble = str(error)
            for id in self.rows.keys() - self._followers.keys():  # noqa: A001
                self._followers[id] = asyncio.create_task(self._follow(self.rows[id]))
            await asyncio.sleep(LOOKS_SECONDS)

    async def close(self) -> None:
        """End all followers."""
        for id in list(self._followers):  # noqa: A001
            await self._leave(id)

    def picture(self) -> Table:
        """Return what is known now as a table."""
        now = time.monotonic()
        total = sum(row.rate(now) for row in self.rows.values())
        table = Table(title=f"{len(self.rows)} sessions, {total:.1f} events/s", expand=True)
        table.add_column("session", ratio=3, no_wrap=True)
        table.add_column("title", ratio=2, no_wrap=True)
        table.add_column("status", min_width=8, no_wrap=True)
        table.add_column("events", min_width=6, justify="right", no_wrap=True)
        table.add_column("events/s", min_width=8, justify="right", no_wrap=True)
        table.add_column("last event", ratio=4, no_wrap=True)
        for row in self.rows.values():
            status = row.info.status if row.info.lifecycle in ("open", "active") else row.info.lifecycle
            table.add_row(
                Text(row.info.id),
                Text(row.info.title or ""),
                Text(status, style=STYLES.get(status, "")),
                f"{row.count:,}",
                f"{row.rate(now):.1f}",
                described(row.last),
            )
        if self.trouble:
            table.caption = self.trouble
        return table

    async def _find_last(self, row: Row) -> None:
        async for event in self._client.session(row.info.id).events(tail=1):
            row.last, row.seen = event, event.position + 1

    async def _follow(self, row: Row) -> None:
        """Follow one session from the last event that is known of it; begin again after a failure."""
        session = self._client.session(row.info.id)
        while True:
            offset = row.last.next_offset if row.last else row.info.next_offset
            try:
                async with contextlib.aclosing(session.tail(offset=offset)) as tail:
                    async for event in tail:
                        row.arrived(event, time.monotonic())
            except NotFoundError:
                return
            except ClientError as error:
                self.trouble = str(error)
                await asyncio.sleep(LOOKS_SECONDS)
            else:
                return  # closed, and all of it was seen

    async def _leave(self, id: str) -> None:  # noqa: A002
        if (follower := self._followers.pop(id, None)) is not None:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)


def described(event: Event | None) -> Text:
    """Return an event in one line without anything that could command a terminal."""
    if event is None:
        return Text("")
    said = event.text or str(event.get("name", ""))
    line = " ".join("".join(c if c.isprintable() else " " for c in said[:500]).split())
    return Text.assemble((event.type, "bold"), " ", line, overflow="ellipsis")


async def show(url: str | None, size: int, *, once: bool) -> None:
    """Show the board, once or for as long as it is let."""
    async with AsyncClient(url) as client:
        board = Board(client, size)
        if once:
            await board.look()
            Console().print(board.picture())
            return
        watching = asyncio.create_task(board.watch())
        try:
            with Live(board.picture(), screen=True, auto_refresh=False) as live:
                while not watching.done():
                    live.update(board.picture(), refresh=True)
                    await asyncio.sleep(0.25)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await board.close()


def main() -> None:
    """Show the dashboard."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="where the server is (DURABLE_SESSIONS_URL)")
    parser.add_argument("--sessions", type=int, default=20, help="how many of the newest to show (20)")
    parser.add_argument("--once", action="store_true", help="print one picture and end")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(show(given.url, given.sessions, once=given.once))


if __name__ == "__main__":
    main()
