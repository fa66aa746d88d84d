"""``durable-sessions impact``: what could have flowed from an event."""

import click

from durable_sessions.cli import graph_output
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.event_lookup import ask_of_event
from durable_sessions.cli.option_types import OneOf, WholeNumber
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION)
@click.argument("event")
@click.option("--depth", type=WholeNumber(1, 50), default=10, show_default=True, help="How far to go on.")
@click.option("--format", "form", type=OneOf(graph_output.FORMATS), help="A text that one of these draws.")
@with_connection
def impact(
    connection: ServerConnection, output: Output, session: str, event: str, depth: int, form: str | None
) -> None:
    """Show what could have flowed from EVENT of SESSION (its id or position), through all sessions.

    For a memory that proved wrong: who read it, and what was done because of that.
    """
    graph_output.require_one_form(output, form)
    info = connection.find(session)
    handle = connection.client.session(info.id)
    found = ask_of_event(connection, info, event, lambda one: handle.impact(one, depth=depth))
    if form is not None:
        graph_output.show_drawing(output, graph_output.drawn(found, form))
    elif output.json:
        output.tell(found)
    else:
        graph_output.show_tree(output, found, forwards=True)
        for reader in found["readers"]:
            output.note(f"read by {reader['session']} ({reader['id']}), influence {reader['influence']}")
        if not found["up_to_date"]:
            output.note("The index is still being made: there may be more.")
