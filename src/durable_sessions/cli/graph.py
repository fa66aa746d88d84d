"""``durable-sessions graph``: what led to what in a session."""

import click

from durable_sessions.cli import graph_output
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset, OneOf
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION)
@click.option("--format", "form", type=OneOf(graph_output.FORMATS), help="A text that one of these draws.")
@click.option("--alone", is_flag=True, help="Without the sessions it was forked from, and all forks.")
@click.option("--at", type=Offset(), help="As it was at this place of the session.")
@with_connection
def graph(
    connection: ServerConnection,
    output: Output,
    session: str,
    form: str | None,
    alone: bool,
    at: str | None,
) -> None:
    """Show what led to what in SESSION and its family: evidence, answers, results, forks."""
    graph_output.require_one_form(output, form)
    info = connection.find(session)
    require_place(connection, info, "--at", at)
    found = connection.client.session(info.id).graph(form or "json", at=at, family=not alone)
    if isinstance(found, str):
        graph_output.show_drawing(output, found)
    elif output.json:
        output.tell(found)
    else:
        graph_output.show_edges(output, found)
