"""``durable-sessions reindex``: rebuild the search index."""

import asyncio
import time
from collections.abc import Callable

import click
import httpcore2
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from durable_sessions.cli.client import Server, with_server
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.data_target import IN_USE_ADVICE, DataTarget, with_target
from durable_sessions.errors import LogLockedError
from durable_sessions.node.node import Node
from durable_sessions.rendering.text import plural

ROUTE = "/v1/admin/reindex"
LOOK_SECONDS = 0.25

Show = Callable[[int, int], None]


class _Begun(msgspec.Struct):
    status: str


class _Search(msgspec.Struct):
    state: str
    events: int = 0
    events_left: int = 0
    reason: str = ""


class _Ready(msgspec.Struct):
    search: _Search


class Reindexed(msgspec.Struct):
    """How many events were indexed, and how long it took."""

    events: int
    seconds: float


@click.command()
@with_target
@with_server
def reindex(where: DataTarget, server: Server) -> None:
    """Rebuild the search index from the log and the bucket, and return when it is complete.

    The running server is asked to, and serves meanwhile. If none listens, the data directory is opened.
    """
    begin = time.monotonic()
    errors = Console(stderr=True)
    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("events"),
        TimeRemainingColumn(),
    )
    is_hidden = where.json or not errors.is_terminal
    with Progress(*columns, console=errors, transient=True, disable=is_hidden) as progress:
        bar = progress.add_task("indexing", total=None)

        def show(done: int, events: int) -> None:
            progress.update(bar, completed=done, total=events)

        try:
            server.ask("POST", ROUTE, _Begun)
            events = _follow(server, show)
            by = server.url
        except httpcore2.ConnectError as error:
            where.require_instead_of(server.url, error)
            try:
                events = asyncio.run(_build(where, show))
            except LogLockedError as locked:
                raise CommandError(
                    f"Nothing listens at {server.url} ({error}), but {locked} {IN_USE_ADVICE}", locked.code
                ) from locked
            by = str(where.data)
    answer = Reindexed(events, round(time.monotonic() - begin, 3))
    counted = f": {answer.events:,} {plural(answer.events, 'event')}" if answer.events else ""
    where.say(f"The search index of {by} was rebuilt{counted} in {answer.seconds:,.1f} s.")
    where.tell(answer)


def _follow(server: Server, show: Show) -> int:
    """Wait until a running server has rebuilt its index."""
    events = 0  # remembered, because a server that is ready tells no longer how many there were
    while True:
        search = server.ask("GET", "/readyz", _Ready).search
        if search.state == "ready":
            return events
        if search.state in {"failing", "paused"}:
            raise CommandError(f"The index cannot be made: {search.reason or 'see the server log'}")
        events = max(events, search.events)
        show(search.events - search.events_left, search.events)
        time.sleep(LOOK_SECONDS)


async def _build(where: DataTarget, show: Show) -> int:
    """Open the data directory as a server does, and rebuild the index without serving."""
    node = await Node.open(where.settings)
    try:
        feeds = [keeper.engine.feed for keeper in node.keepers.values()]
        for feed in feeds:
            feed.rebuild()
        while any(feed.is_building for feed in feeds):  # polled, to show the progress
            problem = next((problem for feed in feeds if (problem := feed.failure or feed.paused)), None)
            if problem is not None:
                raise CommandError(f"The index cannot be made: {problem}")
            events = sum(feed.events_lacking for feed in feeds)
            show(events - sum(feed.events_left for feed in feeds), events)
            await asyncio.sleep(LOOK_SECONDS)
        return sum(feed.events_lacking for feed in feeds)
    finally:
        await node.close()
