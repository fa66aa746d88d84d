"""``durable-sessions diff``: how two branches differ."""

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset
from durable_sessions.cli.terminal import Output
from durable_sessions.rendering.text import compact, one_line, plural

_HEADS = ("", "A", "B")


@click.command()
@click.argument("session", type=SESSION)
@click.argument("other", type=SESSION)
@click.option("--at", type=Offset(), help="SESSION as it was there.")
@click.option("--other-at", type=Offset(), help="OTHER as it was there.")
@with_connection
def diff(
    connection: ServerConnection,
    output: Output,
    session: str,
    other: str,
    at: str | None,
    other_at: str | None,
) -> None:
    """Compare SESSION (A) with OTHER (B), such as a fork of it: what each did behind what they share."""
    ours, theirs = connection.find(session), connection.find(other)
    require_place(connection, ours, "--at", at)
    require_place(connection, theirs, "--other-at", other_at)
    found = connection.client.session(ours.id).diff(theirs.id, at=at, other_at=other_at)
    if output.json:
        output.tell(found)
        return
    output.table(_HEADS, list(_rows(found)), frozenset(), gives_way=2)
    common = found["common"]
    if common is None:
        output.note("They share no events.")
    else:
        events = f"{common['position']:,} {plural(common['position'], 'event')}"
        output.note(f"They share the first {events} of {common['session']}.")


def _rows(found: dict[str, Any]) -> Iterator[tuple[Text, Text, Text]]:
    a, b = found["a"], found["b"]
    yield _row("session", a["session"], b["session"])
    yield _row("events", a["events"], b["events"])
    yield _row("done", a["done"], b["done"])
    yield _row("calls", sum(a["tools"].values()), sum(b["tools"].values()))
    yield _row("failed calls", a["failed_calls"], b["failed_calls"])
    for one in found["facts"]:
        yield _row(f"fact {one['key']}", one["a"], one["b"])
    for one in found["verdicts"]:
        yield _row(f"verdict {one['feature']}", one["a"], one["b"])


def _row(label: str, a: object, b: object) -> tuple[Text, Text, Text]:
    ours, theirs = ("-" if one is None else one_line(compact(one), 200) for one in (a, b))
    return Text(one_line(label, 100), style="bold"), Text(ours), Text(theirs)
