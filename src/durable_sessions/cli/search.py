"""``durable-sessions search``: find events by their words."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_order
from durable_sessions.cli.option_types import OneOf, Pair, Time, WholeNumber
from durable_sessions.cli.session_title import told_apart
from durable_sessions.cli.spelling import near
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Client, Hit, SearchGroup, SearchResults, SessionInfo
from durable_sessions.rendering import human_times
from durable_sessions.rendering.entries import KNOWN_TYPES, entry_of
from durable_sessions.rendering.text import clean, one_line, plural

SNIPPET_CHARACTERS_MAX = 400
SESSIONS_MAX = 100
HITS_PER_SESSION_MAX = 20
HITS_PER_PAGE_MAX = 100
"""The most hits that the server returns in one answer."""
_HIGHLIGHT = "bold yellow"
_TYPE = "type:"
_FILTER = re.compile(r'(?<!\S)[+-]?type:("[^"]+"|[^\s"]+)')


@click.command()
@click.argument("query", nargs=-1, required=True)
@with_connection
@click.option("--session", type=SESSION, help="Only in this session.")
@click.option(
    "--role", type=OneOf(["user", "agent", "tool", "system", "error"]), help="Only what these said."
)
@click.option("--agent", metavar="ID", help="Only in sessions of this agent.")
@click.option("--type", "types", multiple=True, help="Only this type, or a family like agent.*; repeatable.")
@click.option(
    "--metadata", type=Pair(), multiple=True, help="Only in sessions with this metadata; repeatable."
)
@click.option("--after", type=Time(), help="Only what happened after this time, such as 2026-11-15 or 2h.")
@click.option("--before", type=Time(), help="Only what happened before this time.")
@click.option("--order", type=OneOf(["asc", "desc"]), help="With --session: by time instead of by score.")
@click.option("--limit", type=WholeNumber(min=1), default=20, show_default=True, help="How many hits.")
def search(
    connection: ServerConnection,
    output: Output,
    query: tuple[str, ...],
    session: str | None,
    role: str | None,
    agent: str | None,
    types: tuple[str, ...],
    metadata: tuple[tuple[str, str], ...],
    after: str | None,
    before: str | None,
    order: Literal["asc", "desc"] | None,
    limit: int,
) -> None:
    """Search all sessions for QUERY, and show the hits by session, the best first.

    Words are enough. Also: "a phrase", +must, -not, prefix*, type:agent.tool_use, name:bash, is:error.
    Put -- before a query that begins with a minus.
    """
    if not " ".join(query).strip():
        raise click.UsageError("Give words to look for, such as: ds search timeout")
    if order is not None and session is None:
        raise click.UsageError("--order goes with --session: hits in several sessions have no common order.")
    require_order(after, before)
    which = _Filters(role, types or None, after, before)
    if session is None:
        found = _everywhere(connection.client, " ".join(query), which, agent, dict(metadata), limit)
    else:
        if agent is not None or metadata:
            raise click.UsageError("--agent and --metadata choose sessions; with --session one is chosen.")
        found = _within(connection.client, connection.find(session), " ".join(query), which, order, limit)
    if output.json:
        for group in found.groups:
            output.tell(group.raw)
    else:
        _show(output, found, limit)
        for hint in filter_hints(" ".join(query), types, is_empty=not found.groups):
            output.note(hint)


def filter_hints(query: str, types: tuple[str, ...], *, is_empty: bool) -> Iterator[str]:
    """Yield the types that may have been meant by those that nothing has."""
    asked = [("", kind) for kind in types]
    asked += [(_TYPE, found[1].strip('"')) for found in _FILTER.finditer(query)]
    for filtered, kind in asked if is_empty else ():
        if kind in KNOWN_TYPES or kind.endswith("*"):
            continue
        if meant := near(kind, KNOWN_TYPES):
            yield f"No event of the type {kind} was found. Did you mean {filtered}{meant[0]}?"


class _Filters(NamedTuple):
    """Filters for events, in one session or in all."""

    role: str | None
    types: tuple[str, ...] | None
    after: str | None
    before: str | None


def _everywhere(
    client: Client, query: str, which: _Filters, agent: str | None, metadata: dict[str, str], hits_max: int
) -> SearchResults:
    """Search all sessions. The server limits sessions and hits per session; ``--limit`` is for all hits."""
    found = client.search(
        query,
        limit=min(hits_max, SESSIONS_MAX),
        hits=min(hits_max, HITS_PER_SESSION_MAX),
        agent=agent,
        metadata=metadata,
        **which._asdict(),
    )
    # The best hits of each session come back, so that together they may be more than were asked for.
    groups = []
    for group in found.groups:
        hits = group.hits[:hits_max]
        hits_max -= len(hits)
        if hits:
            groups.append(
                SearchGroup(group.session, hits, {**group.raw, "hits": group.raw["hits"][: len(hits)]})
            )
    return replace(found, groups=groups)


def _within(
    client: Client,
    info: SessionInfo,
    query: str,
    which: _Filters,
    order: Literal["asc", "desc"] | None,
    hits_max: int,
) -> SearchResults:
    """Search one session, page by page, up to this many hits."""
    hits: list[Hit] = []
    page: str | None = None
    while True:
        found = client.session(info.id).search(
            query,
            limit=min(hits_max - len(hits), HITS_PER_PAGE_MAX),
            order=order,
            page=page,
            **which._asdict(),
        )
        hits += found.hits
        page = found.next_page
        if page is None or len(hits) >= hits_max:
            break
    raw = {"session": info.raw, "hits": [hit.raw for hit in hits]}
    groups = [SearchGroup(info, hits, raw)] if hits else []
    return SearchResults(
        groups, found.total_hits, len(groups), page, found.indexed_through, found.up_to_date, raw
    )


def _show(output: Output, found: SearchResults, limit: int) -> None:
    for at, group in enumerate(found.groups):
        if at:
            output.show()
        title = told_apart(group.session, 100)
        output.show(Text.assemble((one_line(group.session.id, 200), "bold"), f"  {title}" if title else ""))
        for hit in group.hits:
            output.show(_line(hit))
    shown = sum(len(group.hits) for group in found.groups)
    hits = f"{found.total_hits:,} {plural(found.total_hits, 'hit')}"
    sessions = f"{found.total_sessions:,} {plural(found.total_sessions, 'session')}"
    more = ", more with --limit" if shown >= limit else ", the best of each session"
    output.note(f"{hits} in {sessions}" + (f"; {shown:,} shown{more}" if shown < found.total_hits else ""))


def _line(hit: Hit) -> Text:
    entry = entry_of(hit.event.data)
    at = "" if entry.at_ms is None else human_times.minute(entry.at_ms)
    where = "" if entry.position is None else f"#{entry.position}"
    head = Text.assemble(
        "  ", (f"{at}  {where}  ", "dim"), (entry.title, "red" if entry.failed else "cyan"), "  "
    )
    return head.append_text(highlighted(hit.snippet, hit.highlights) if hit.snippet else Text(entry.line))


def highlighted(snippet: str, highlights: Iterable[Any]) -> Text:
    """Return a snippet as one line with the matches highlighted."""
    pieces: list[tuple[str, bool]] = []
    done = 0
    # Places that overlap or lie outside are passed over: a snippet is shown whatever a server says of it.
    for start, end in sorted(filter(None, map(_span, highlights))):
        if done <= start < end <= len(snippet):
            pieces += [(snippet[done:start], False), (snippet[start:end], True)]
            done = end
    pieces.append((snippet[done:], False))
    text = Text()
    for piece, matched in pieces:
        # Cleaned piece by piece: cleaning changes lengths, and the places are those of the snippet as it
        # came.
        text.append(clean(piece).replace("\n", " "), style=_HIGHLIGHT if matched else None)
    text.truncate(SNIPPET_CHARACTERS_MAX, overflow="ellipsis")
    return text


def _span(value: object) -> tuple[int, int] | None:
    match value:
        case [int(start), int(end)] if start >= 0:
            return start, end
    return None
