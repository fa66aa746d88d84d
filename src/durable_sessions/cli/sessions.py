"""``durable-sessions sessions``: list sessions."""

import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Literal, Unpack

import click
from click.core import ParameterSource
from rich.text import Text

from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_order
from durable_sessions.cli.option_types import OneOf, Pair, Time, WholeNumber
from durable_sessions.cli.session_title import fork_note
from durable_sessions.cli.spelling import nearest
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Client
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.pages import SessionFilters, Sort
from durable_sessions.exporters.summary import shown_status
from durable_sessions.rendering.human_times import ago
from durable_sessions.rendering.text import one_line

_HEADS = ("ID", "TITLE", "STATUS", "EVENTS", "STARTED", "ACTIVE")
_RIGHT = frozenset({3})
_STATUS_COLOURS = {"running": "green", "rescheduling": "yellow", "terminated": "dim"}
_STATUSES = ("idle", "running", "rescheduling", "terminated")
_IMPORTED = "imported"
_LIFECYCLES = ("open", "active", "paused", "resumed", "closed", "archived")


def _known(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse values that are no status; other values of that column have their own options."""
    for one in given:
        if one in _LIFECYCLES:
            raise click.BadParameter(f"{one!r} is not a status but a state: use --lifecycle {one}.")
        if one == _IMPORTED:
            raise click.BadParameter(
                "'imported' is not a status: use --metadata tool=claude-code, or what tool it was."
            )
        if one not in _STATUSES:
            said = f"{one!r} is not a status; there are {', '.join(_STATUSES)}."
            raise click.BadParameter(" ".join(filter(None, (said, nearest(one, _STATUSES)))))
    return given


@click.command()
@with_connection
@click.option("-q", "query", metavar="TEXT", help="Only those with this in title, metadata or id.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    callback=_known,
    metavar="|".join(_STATUSES),
    help="Only with this status; repeatable.",
)
@click.option("--lifecycle", type=OneOf(_LIFECYCLES), multiple=True, help="Only in this state; repeatable.")
@click.option("--metadata", type=Pair(), multiple=True, help="Only with this metadata; repeatable.")
@click.option("--agent", metavar="ID", help="Only of this agent.")
@click.option("--after", type=Time(), help="Only started after this time; imported ones: when they happened.")
@click.option("--before", type=Time(), help="Only started before this time.")
@click.option("--archived", is_flag=True, help="Also archived ones.")
@click.option(
    "--sort",
    type=OneOf(["activity", "started_at", "created_at", "updated_at"]),
    default="activity",
    show_default=True,
    help="By which time; of imported sessions activity and started_at are when they happened.",
)
@click.option("--order", type=OneOf(["asc", "desc"]), default="desc", show_default=True, help="Which first.")
@click.option("--limit", type=WholeNumber(min=1), default=50, show_default=True, help="How many to list.")
@click.option("--all", "everything", is_flag=True, help="List all of them.")
@click.option("--follow", is_flag=True, help="Go on with each session as it changes, until Ctrl-C.")
def sessions(
    connection: ServerConnection,
    output: Output,
    query: str | None,
    statuses: tuple[str, ...],
    lifecycle: tuple[str, ...],
    metadata: tuple[tuple[str, str], ...],
    agent: str | None,
    after: str | None,
    before: str | None,
    archived: bool,
    sort: Sort,
    order: Literal["asc", "desc"],
    limit: int,
    everything: bool,
    follow: bool,
) -> None:
    """List sessions, those where something happened last first."""
    require_order(after, before)
    is_filtered = any((query, statuses, lifecycle, metadata, agent, after, before))
    if follow and is_filtered:
        raise click.UsageError("--follow tells of all sessions; leave out what selects some of them.")
    if (
        everything
        and click.get_current_context().get_parameter_source("limit") is ParameterSource.COMMANDLINE
    ):
        raise click.UsageError("Give one of --all and --limit, not both.")
    limit = min(limit, sys.maxsize - 1)  # no list is longer than that
    listed = partial(
        _listed,
        connection.client,
        limit=None if everything or statuses else limit + 1,
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
    # All of them are listed by creation, for a session that changes meanwhile moves in any other order.
    found = listed(sort="created_at" if everything else sort)
    shown = _sorted(found, sort, order) if everything else islice(found, limit)
    if output.json:
        for info in shown:
            output.tell(info.raw)
        if follow:
            _follow(connection, output)
        return
    now_ms = time.time_ns() // 1_000_000
    rows = [_row(info, now_ms) for info in shown]
    if follow:
        output.table(_HEADS, rows, _RIGHT, gives_way=1)
        _follow(connection, output)
        return
    if not rows:
        if next(listed(include_archived=True, sort="created_at"), None) is not None:
            output.note("Only archived sessions match; see them with --archived.")
        else:
            output.note("No session matches." if is_filtered or _has_any(connection) else "No sessions yet.")
        return
    output.table(_HEADS, rows, _RIGHT, gives_way=1)
    if next(found, None) is not None:
        these = "this one" if limit == 1 else f"these {limit:,}"
        output.note(f"There are more than {these}; see them with --all or --limit.")


def _listed(client: Client, **filters: Unpack[SessionFilters]) -> Iterator[SessionInfo]:
    """Yield sessions; those that are chosen by status without those that are shown as imported.

    Their status is where their source had ended: an imported session that says ``running`` does not run.
    """
    found = client.sessions.list(**filters)
    if not filters.get("statuses"):
        return found
    return (info for info in found if shown_status(info.raw) != _IMPORTED)


def _follow(connection: ServerConnection, output: Output) -> None:
    """Print each session that changes on a line of its own, for ever."""
    is_first = True
    for change in connection.client.sessions.follow():
        if change.gap and not is_first:
            output.note("The connection was lost; what changed meanwhile is not shown here.")
        is_first = False
        now_ms = time.time_ns() // 1_000_000
        for info in change.changed:
            if output.json:
                output.tell(info.raw)
            else:
                output.show(Text("  ").join(_row(info, now_ms)))
        for name in change.gone:
            if output.json:
                output.tell({"id": name, "gone": True})
            else:
                output.show(Text(f"{one_line(name, 200)}  is gone", style="dim"))


def _sorted(found: Iterable[SessionInfo], sort: Sort, order: str) -> Iterable[SessionInfo]:
    """Sort all sessions, which the server returned by creation."""
    if sort == "created_at":
        return found

    def at(info: SessionInfo) -> datetime:
        if sort == "updated_at":
            return info.updated_at
        return (info.started_at if sort == "started_at" else info.last_activity_at) or info.created_at

    return sorted(found, key=at, reverse=order == "desc")


def _has_any(connection: ServerConnection) -> bool:
    """Say whether there are sessions at all, archived ones included."""
    return next(connection.client.sessions.list(limit=1, include_archived=True), None) is not None


def _row(info: SessionInfo, now_ms: int) -> tuple[Text, ...]:
    status = shown_status(info.raw)
    started_ms, active_ms = (
        int(at.timestamp() * 1000)
        for at in (info.started_at or info.created_at, info.last_activity_at or info.updated_at)
    )
    return (
        Text(one_line(info.id, 200), style="bold"),
        _title(info),
        Text(one_line(status, 20), style=_STATUS_COLOURS.get(status, "")),
        Text(f"{info.event_count:,}"),
        Text(ago(started_ms, now_ms), style="dim"),
        Text(ago(active_ms, now_ms), style="dim"),
    )


def _title(info: SessionInfo) -> Text:
    """Return the title, and which session a fork comes from."""
    title = Text(one_line(info.title or "", 60))
    if note := fork_note(info):
        title.append(f"{' ' if title else ''}{note}", style="dim")
    return title
