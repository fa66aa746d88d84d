"""``durable-sessions release``: give a session back that was woken."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from durable_sessions.cli import lease_time
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import SessionConflictError
from durable_sessions.cli.connection import ServerConnection, held_epoch, with_connection
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.cli.terminal import Output
from durable_sessions.client.errors import PermissionDeniedError


@click.command()
@click.argument("session", type=SESSION)
@click.option("--epoch", type=WholeNumber(min=1), help="Of the lease; the present one if not given.")
@click.option("--reason", help="Why.")
@with_connection
def release(
    connection: ServerConnection, output: Output, session: str, epoch: int | None, reason: str | None
) -> None:
    """Give SESSION back, so that another worker can wake it at once."""
    info = connection.find(session)
    given = epoch or held_epoch(info.id)
    if given is None:
        lease = connection.client.session(info.id).state()["lease"]
        if lease is None:
            raise SessionConflictError(f"Nobody has {info.id}: there is no lease to give back.")
        given = lease["epoch"]
    with connection.writing(info.id), _held_by_others(connection, info.id, given):
        offset = connection.client.release(info.id, given, reason)
    if output.json:
        output.tell({"session": info.id, "epoch": given, "offset": offset})
    else:
        output.note(f"{info.id}: epoch {given} released")


@contextmanager
def _held_by_others(connection: ServerConnection, session: str, epoch: int) -> Iterator[None]:
    """Say who can give a lease back, and how to take the session, if the lease is somebody else's."""
    try:
        yield
    except PermissionDeniedError as error:
        lease = connection.client.session(session).state()["lease"] if error.code == "lease_lost" else None
        if lease is None or lease["epoch"] != epoch:
            raise
        if lease_time.is_over(lease):
            advice = f"Its time is over, so wake the session with: {connection.command('wake', session)}"
        else:
            command = connection.command("wake", session, "--force")
            advice = f"Wait for it, or take the session, which needs the role evaluator, with: {command}"
        said = f"The lease of epoch {epoch} is that of {lease['principal']}, who alone can give it back."
        raise SessionConflictError(f"{said} {advice}", error.code) from error
