"""``durable-sessions handoff``: what a session hands over to the next worker, as files."""

from pathlib import Path

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import SessionConflictError, WrongInputError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_types import OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Session
from durable_sessions.client.handoff import FEATURES, FEATURES_ALIAS, INIT, PROGRESS, HandoffBreachError
from durable_sessions.rendering.text import clean

_TOLD = "handoff.md"
_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("session", type=SESSION)
@click.option(
    "--file",
    "name",
    type=OneOf([_TOLD, FEATURES, FEATURES_ALIAS, PROGRESS, INIT]),
    help="Print this file instead of handoff.md.",
)
@click.option("--write", "written", type=_DIRECTORY, metavar="DIR", help="Write all files into this folder.")
@click.option("--read", type=_DIRECTORY, metavar="DIR", help="Append what a worker changed in these files.")
@with_connection
def handoff(
    connection: ServerConnection,
    output: Output,
    session: str,
    name: str | None,
    written: Path | None,
    read: Path | None,
) -> None:
    """Show what the next worker on SESSION must know; or write it to files, and read them back.

    \b
    ds handoff issue-7 --write .       feature-list.json, progress.txt, init.sh, handoff.md
    ds handoff issue-7 --read .        what was done since, as a checkpoint

    Reading turns features marked as passing into what a checkpoint says is done (a claim, not a verdict), new
    lines of progress.txt into its instructions, and a changed init.sh into an artifact. Removed features and
    edited checks are refused with status 6, and nothing is written.
    """
    if sum(given is not None for given in (name, written, read)) > 1:
        raise click.UsageError("Give one of --file, --write and --read.")
    target = connection.as_worker(connection.find(session).id)
    if read is not None:
        with connection.writing(target.id):
            _read(output, target, read)
        return
    files = target.handoff()
    if written is not None:
        paths = [str(path) for path in files.write(written)]
        if output.json:
            output.tell({"session": target.id, "files": paths})
        else:
            output.note(f"{target.id}: {', '.join(paths)} written")
    elif output.json:
        output.tell({"session": target.id, "files": files})
    else:
        text = files[FEATURES if name == FEATURES_ALIAS else name or _TOLD]
        click.echo(clean(text) if output.is_terminal else text, nl=False)


def _read(output: Output, session: Session, folder: Path) -> None:
    try:
        done = session.read_handoff(folder)
    except HandoffBreachError as error:
        raise SessionConflictError(str(error), "ratchet") from error
    except ValueError as error:
        raise WrongInputError(str(error)) from error
    if output.json:
        output.tell({"session": session.id, "next_offset": None if done is None else done.next_offset})
    elif done is None:
        output.note(f"{session.id}: nothing has changed in {folder}")
    else:
        output.note(f"{session.id}: checkpoint appended from {folder}")
