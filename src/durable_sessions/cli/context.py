"""``durable-sessions context``: what a model should see next of a session."""

import dataclasses
from typing import Any

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset, WholeNumber
from durable_sessions.cli.terminal import Output
from durable_sessions.client.context import preamble_text
from durable_sessions.rendering.entries import entry_of
from durable_sessions.rendering.text import clean, one_line, plural


@click.command()
@click.argument("session", type=SESSION)
@click.option(
    "--budget-tokens", type=WholeNumber(min=100), help="At most this many tokens; 100,000 if not given."
)
@click.option("--query", "-q", help="Also events that match these words.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type of events; repeatable.")
@click.option("--see-all", is_flag=True, help="Also what the present route leaves out.")
@click.option("--at", type=Offset(), help="As it was at this place of the session.")
@with_connection
def context(
    connection: ServerConnection,
    output: Output,
    session: str,
    budget_tokens: int | None,
    query: str | None,
    types: tuple[str, ...],
    see_all: bool,
    at: str | None,
) -> None:
    """Show what a model should see next of SESSION: goal, facts and outcome whole, then the newest events."""
    info = connection.find(session)
    require_place(connection, info, "--at", at)
    found = connection.client.session(info.id).context(
        budget_tokens=budget_tokens, q=query, at=at, types=types or None, see_all=see_all
    )
    if output.json:
        output.tell(dataclasses.asdict(found))
        return
    output.show(Text(clean(preamble_text(found.preamble))))
    for item in found.items:
        output.show(Text(_item_text(item)))
    left = f", {found.omitted:,} older {plural(found.omitted, 'event')} left out" if found.omitted else ""
    output.note(f"{info.id}: about {found.tokens:,} of {found.budget_tokens:,} tokens{left}")


def _item_text(item: dict[str, Any]) -> str:
    if item["kind"] == "summary":
        return f"[events {item['from']} to {item['to'] - 1}] {one_line(item['text'], 300)}"
    event = item["event"]
    return f"{event['type']}: {one_line(entry_of(event).text, 300)}"
