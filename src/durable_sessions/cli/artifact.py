"""``durable-sessions artifact``: store and fetch payloads that are too large for events."""

import mimetypes
import sys
from pathlib import Path

import click

from durable_sessions.cli.atomic_file import with_output_file, write_pieces
from durable_sessions.cli.command_errors import MissingError, WrongInputError
from durable_sessions.cli.confirmation import confirm, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.terminal import Output
from durable_sessions.rendering.text import size

_ANY_TYPE = "application/octet-stream"


@click.group(cls=CommandGroup)
def artifact() -> None:
    """Store, fetch and delete payloads that are too large for events; each is named by its SHA-256."""


@artifact.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@with_connection
@click.option(
    "--media-type", metavar="TYPE", help="What it is, such as image/png; guessed from the name if not given."
)
def put(connection: ServerConnection, output: Output, file: Path, media_type: str | None) -> None:
    """Store FILE, or standard input for -, and print its SHA-256.

    Events refer to it as /v1/artifacts/SHA256. What is stored already is not stored again.
    """
    reads_input = str(file) == "-"
    kind = media_type or (not reads_input and mimetypes.guess_type(file.name)[0]) or _ANY_TYPE
    try:
        stored = connection.client.artifacts.put(sys.stdin.buffer.read() if reads_input else file, kind)
    except ValueError as error:
        raise WrongInputError(str(error)) from error
    if output.json:
        shown = {"sha256": stored.sha256, "bytes": stored.size, "media_type": stored.media_type}
        output.tell({**shown, "path": stored.path})
        return
    click.echo(stored.sha256)
    output.note(f"{stored.path}: {size(stored.size)}, {stored.media_type}")


@artifact.command()
@click.argument("sha256")
@with_connection
@with_output_file
def get(connection: ServerConnection, output: Output, sha256: str, path: Path | None) -> None:
    """Fetch the artifact SHA256, checked against its digest.

    A file takes its place only when all of it has come and the digest is right.
    """
    if output.json and (path is None or str(path) == "-"):
        raise click.UsageError("With --json give -o FILE: standard output is for the answer.")
    digest = _digest(sha256)
    try:
        pieces = connection.client.artifacts.stream(digest)
        if path is None or str(path) == "-":
            if output.is_terminal and path is None:
                raise WrongInputError("It may not be text: give -o FILE, or -o - to see it all the same.")
            for piece in pieces:
                output.bytes(piece)
            return
        written = write_pieces(path, pieces)
    except ValueError as error:
        raise WrongInputError(str(error)) from error
    if output.json:
        output.tell({"sha256": digest, "path": str(path), "bytes": written})
    else:
        output.note(f"{path}: {size(written)}")


@artifact.command()
@click.argument("sha256")
@with_connection
@with_yes
def delete(connection: ServerConnection, output: Output, sha256: str, is_sure: bool) -> None:
    """Delete the artifact SHA256, whatever refers to it. This cannot be undone, and needs an admin's key."""
    digest = _digest(sha256)
    try:
        if not connection.client.artifacts.exists(digest):
            raise MissingError(f"There is no artifact {digest}.")
        confirm(f"Delete the artifact {digest}? This cannot be undone.", is_sure=is_sure)
        connection.client.artifacts.delete(digest)
    except ValueError as error:
        raise WrongInputError(str(error)) from error
    if output.json:
        output.tell({"sha256": digest, "deleted": True})
    else:
        output.note(f"{digest}: deleted")


def _digest(given: str) -> str:
    """Return the digest of an artifact that is named as events, refs or other tools name it."""
    return given.removeprefix("/v1/artifacts/").removeprefix("sha256:").lower()
