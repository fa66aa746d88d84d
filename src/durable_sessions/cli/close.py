"""``durable-sessions close``: let sessions take no more events."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.confirmation import end_each, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_types import OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Session

_OUTCOMES = ["completed", "failed", "cancelled", "timed_out"]


@click.command()
@click.argument("session", type=SESSION, nargs=-1, required=True)
@click.option("--outcome", type=OneOf(_OUTCOMES), help="How the work on it ended.")
@click.option("--reason", help="Why, beside --outcome.")
@with_connection
@with_yes
def close(
    connection: ServerConnection,
    output: Output,
    session: tuple[str, ...],
    outcome: str | None,
    reason: str | None,
    is_sure: bool,
) -> None:
    """Close each SESSION: it takes no more events, and can be read for ever. It cannot be opened again."""
    if reason is not None and outcome is None:
        raise click.UsageError("--reason says why the work ended: give --outcome, too.")
    question = "Close {}? It cannot be opened again."
    end = Session.close if outcome is None else lambda one: one.end(outcome, reason)
    end_each(connection, output, session, end, question=question, done=outcome or "closed", is_sure=is_sure)
