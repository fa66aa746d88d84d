"""``durable-sessions sessions``: which sessions there are."""

import time
from itertools import islice
from typing import Literal

import click
from rich.text import Text

from durable_sessions.cli.connection import Connection, with_connection
from durable_sessions.cli.parameters import Pair, Time
from durable_sessions.cli.terminal import Output
from durable_sessions.client.info import SessionInfo
from durable_sessions.rendering.moments import ago
from durable_sessions.rendering.text import one_line, size

_HEADS = ("ID", "TITLE", "STATUS", "EVENTS", "SIZE", "UPDATED")
_RIGHT = frozenset({3, 4})
_STATUS_COLOURS = {"running": "green", "rescheduling": "yellow", "terminated": "dim"}
_LIFECYCLES = ("open", "active", "paused", "closed", "archived")


@click.command()
@with_connection
@click.option("-q", "query", metavar="TEXT", help="Only those with this in title, metadata or id.")
@click.option(
    "--status", "statuses", multiple=True, help="Only with this status, such as running; repeatable."
)
@click.option(
    "--lifecycle", type=click.Choice(_LIFECYCLES), multiple=True, help="Only in this state; repeatable."
)
@click.option("--metadata", type=Pair(), multiple=True, help="Only with this metadata; repeatable.")
@click.option("--agent", metavar="ID", help="Only of this agent.")
@click.option("--after", type=Time(), help="Only created after this time.")
@click.option("--before", type=Time(), help="Only created before this time.")
@click.option("--archived", is_flag=True, help="Also archived ones.")
@click.option(
    "--order", type=click.Choice(["asc", "desc"]), default="desc", show_default=True, help="By creation."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many to list.")
@click.option("--all", "everything", is_flag=True, help="List all of them.")
def sessions(
    connection: Connection,
    output: Output,
    query: str | None,
    statuses: tuple[str, ...],
    lifecycle: tuple[str, ...],
    metadata: tuple[tuple[str, str], ...],
    agent: str | None,
    after: str | None,
    before: str | None,
    archived: bool,
    order: Literal["asc", "desc"],
    limit: int,
    everything: bool,
) -> None:
    """List sessions, the newest first."""
    found = connection.client.sessions.list(
        limit=None if everything else limit + 1,
        q=query,
        metadata=dict(metadata),
        lifecycle=lifecycle,
        statuses=statuses,
        agent_id=agent,
        after=after,
        before=before,
        include_archived=archived or "archived" in lifecycle,
        order=order,
    )
    shown = found if everything else islice(found, limit)
    if output.json:
        for info in shown:
            output.tell(info.raw)
        return
    now_ms = time.time_ns() // 1_000_000
    rows = [_row(info, now_ms) for info in shown]
    if not rows:
        output.note(
            "No session matches." if query or statuses or lifecycle or metadata else "No sessions yet."
        )
        return
    output.table(_HEADS, rows, _RIGHT, gives_way=1)
    if next(found, None) is not None:
        output.note(f"There are more than these {limit}; see them with --all or --limit.")


def _row(info: SessionInfo, now_ms: int) -> tuple[Text, ...]:
    status = info.lifecycle if info.lifecycle in ("closed", "archived", "paused") else info.status
    updated_ms = int(info.updated_at.timestamp() * 1000)
    return (
        Text(one_line(info.id, 200), style="bold"),
        Text(one_line(info.title or "", 60)),
        Text(one_line(status, 20), style=_STATUS_COLOURS.get(status, "")),
        Text(f"{info.event_count:,}"),
        Text(size(info.bytes)),
        Text(ago(updated_ms, now_ms), style="dim"),
    )
