"""``durable-sessions search``: find events by their words."""

from collections.abc import Iterable
from typing import Any, Literal

import click
from rich.text import Text

from durable_sessions.cli.completing import SESSION
from durable_sessions.cli.connection import Connection, with_connection
from durable_sessions.cli.parameters import Pair, Time
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Hit, SearchResults
from durable_sessions.rendering import moments
from durable_sessions.rendering.entries import entry_of
from durable_sessions.rendering.text import clean, one_line, plural

SNIPPET_CHARACTERS_MAX = 400
_HIGHLIGHT = "bold yellow"


@click.command()
@click.argument("query", nargs=-1, required=True)
@with_connection
@click.option("--session", type=SESSION, help="Only in this session.")
@click.option("--role", type=click.Choice(["user", "agent", "tool", "error"]), help="Only what these said.")
@click.option("--agent", metavar="ID", help="Only in sessions of this agent.")
@click.option("--type", "types", multiple=True, help="Only this type, or a family like agent.*; repeatable.")
@click.option(
    "--metadata", type=Pair(), multiple=True, help="Only in sessions with this metadata; repeatable."
)
@click.option("--after", type=Time(), help="Only what was stored after this time, such as 2026-11-15 or 2h.")
@click.option("--before", type=Time(), help="Only what was stored before this time.")
@click.option("--order", type=click.Choice(["asc", "desc"]), help="By time instead of by score.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many hits.")
def search(
    connection: Connection,
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
    found = connection.client.search(
        " ".join(query),
        limit=limit,
        session=session,
        role=role,
        agent=agent,
        metadata=dict(metadata),
        types=types or None,
        after=after,
        before=before,
        order=order,
    )
    if output.json:
        output.tell(found.raw)
        return
    _show(output, found)


def _show(output: Output, found: SearchResults) -> None:
    for at, group in enumerate(found.groups):
        if at:
            output.show()
        title = one_line(group.session.title or "", 100)
        output.show(Text.assemble((one_line(group.session.id, 200), "bold"), f"  {title}" if title else ""))
        for hit in group.hits:
            output.show(_line(hit))
    shown = sum(len(group.hits) for group in found.groups)
    hits = f"{found.total_hits:,} {plural(found.total_hits, 'hit')}"
    sessions = f"{found.total_sessions:,} {plural(found.total_sessions, 'session')}"
    output.note(
        f"{hits} in {sessions}" + (f"; {shown} shown, more with --limit" if shown < found.total_hits else "")
    )


def _line(hit: Hit) -> Text:
    entry = entry_of(hit.event.data)
    at = "" if entry.at_ms is None else moments.minute(entry.at_ms)
    where = "" if entry.position is None else f"#{entry.position}"
    head = Text.assemble(
        "  ", (f"{at}  {where}  ", "dim"), (entry.title, "red" if entry.failed else "cyan"), "  "
    )
    return head.append_text(highlighted(hit.snippet, hit.highlights) if hit.snippet else Text(entry.line))


def highlighted(snippet: str, highlights: Iterable[Any]) -> Text:
    """Return a snippet as one line in which the places that matched stand out."""
    pieces: list[tuple[str, bool]] = []
    done = 0
    for start, end in sorted(filter(None, map(_span, highlights))):
        if done <= start < end <= len(snippet):
            pieces += [(snippet[done:start], False), (snippet[start:end], True)]
            done = end
    pieces.append((snippet[done:], False))
    text = Text()
    for piece, matched in pieces:
        text.append(clean(piece).replace("\n", " "), style=_HIGHLIGHT if matched else None)
    text.truncate(SNIPPET_CHARACTERS_MAX, overflow="ellipsis")
    return text


def _span(value: object) -> tuple[int, int] | None:
    match value:
        case [int(start), int(end)] if start >= 0:
            return start, end
    return None
