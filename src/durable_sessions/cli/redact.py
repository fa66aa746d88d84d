"""``durable-sessions redact``: erase events for good."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError, WrongInputError
from durable_sessions.cli.confirmation import confirm, described, sessions_to_end, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_names import in_options
from durable_sessions.cli.terminal import Output
from durable_sessions.client.errors import NotFoundError
from durable_sessions.rendering.text import plural


@click.command()
@click.argument("session", type=SESSION)
@click.argument("event", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; it is kept with every event that is erased.")
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="SHA256", help="Delete this artifact's bytes, too."
)
@click.option("--no-digest", is_flag=True, help="Keep no SHA-256: for texts that could be guessed from it.")
@with_connection
@with_yes
def redact(
    connection: ServerConnection,
    output: Output,
    session: str,
    event: tuple[str, ...],
    reason: str,
    artifacts: tuple[str, ...],
    no_digest: bool,
    is_sure: bool,
) -> None:
    """Erase each EVENT of SESSION, in all its forks too. This cannot be undone, and needs an admin's key.

    What stays is who sent it, when, its type, its size and its SHA-256, and the reason.
    """
    (info,) = sessions_to_end(connection, [session], is_sure=is_sure)
    what = f"{len(event):,} {plural(len(event), 'event')}"
    confirm(f"Erase {what} of {described(info)}? This cannot be undone.", is_sure=is_sure)
    handle = connection.client.session(info.id)
    try:
        record = handle.redact(event, reason=reason, artifacts=artifacts, digest=not no_digest)
    except ValueError as error:
        raise WrongInputError(str(error)) from error
    except NotFoundError as error:
        if error.code != "event_not_found":
            raise
        ids = connection.command("events", info.id, "--tail", "5")
        raise MissingError(
            f"{in_options(error.message)} EVENT is the id of an event; see them with: {ids}"
        ) from error
    if output.json:
        output.tell({"event": None if record is None else record.data})
    else:
        already = record is not None and record.next_offset <= info.next_offset
        output.note(f"{info.id}: {what} redacted{' already' if already else ''}")
