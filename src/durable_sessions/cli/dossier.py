"""``durable-sessions dossier``: what a family of sessions has to show, and whether a file of it is true."""

import dataclasses
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import CommandError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset, OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.rendering.text import clean, plural, size

KINDS = ("engineering", "research", "trading", "report")
_VERIFY = "verify"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _DossierCommand(click.Command):
    """The command, and ``verify`` as its other form; a session of that name is given behind ``--``."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == [_VERIFY]:
            return verify.make_context(f"{info_name} {_VERIFY}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "--keys", type=_FILE, metavar="FILE", help="The server's key set, saved before; no server is asked then."
)
@with_connection
def verify(connection: ServerConnection, output: Output, file: Path, keys: Path | None) -> None:
    """Verify FILE, the zip file of a dossier: its sums, the subjects of its statement, and the signature.

    Every ref must lead to an event in the file. The public keys are those at /v1/stream/__ds/jwks.json of the
    server that made it. Exits with 1 if a single byte is another one.
    """
    # Imported here, because the library for signatures takes long to load.
    from durable_sessions.evidence import verification

    try:
        known = verification.public_keys(connection.signing_keys() if keys is None else keys.read_bytes())
    except verification.DossierInvalidError as error:
        if keys is None:
            raise
        raise click.UsageError(
            f"{keys} is no key set: save one from /v1/stream/__ds/jwks.json of the server."
        ) from error
    try:
        found = verification.verify(file, known)
    except verification.DossierInvalidError as error:
        raise CommandError(f"{file} proves nothing: {error}", "dossier_invalid") from error
    if output.json:
        output.tell({"path": str(file), **dataclasses.asdict(found)})
        return
    counted = (
        f"{found.files:,} {plural(found.files, 'file')}, {found.events:,} {plural(found.events, 'event')}"
    )
    principals = "with keys" if found.principals == "keys" else "only declared"
    # What holds for the file and what it says of the work are apart: a file about a failure is intact, too.
    whole = "complete" if found.complete else f"without {', '.join(found.missing)}"
    for line in (
        f"{file} is as it was written: {found.kind} dossier of {found.session}",
        f"{counted}, signed by {found.keyid}; principals {principals}",
        f"The work: {found.result}, {whole}",
    ):
        output.show(Text(clean(line)))


@click.command(cls=_DossierCommand)
@click.argument("session", type=SESSION)
@click.option("--kind", type=OneOf([*KINDS]), default=KINDS[0], show_default=True, help="For whom.")
@click.option("--at", type=Offset(), help="As it was at this place of the session.")
@click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file to write: .json, .md, else a zip file with all that proves it.",
)
@with_connection
def dossier(
    connection: ServerConnection, output: Output, session: str, kind: str, at: str | None, path: Path | None
) -> None:
    """Show what SESSION and its family have to show for themselves; or write it to a file.

    \b
    ds dossier issue-7                        to be read
    ds dossier issue-7 -o issue-7.zip         with events, artifacts, graph, sums and signature
    ds dossier verify issue-7.zip             check such a file

    Without a file it is Markdown, with --json it is JSON. A file takes its place when all of it has come.
    """
    info = connection.find(session)
    require_place(connection, info, "--at", at)
    found = connection.client.session(info.id).dossier(kind, at=at)
    if path is not None:
        found.save(path)
        written = path.stat().st_size
        if output.json:
            output.tell({"session": info.id, "kind": kind, "path": str(path), "bytes": written})
        else:
            output.note(f"{path}: {kind} dossier of {info.id}, {size(written)}")
    elif output.json:
        output.tell(found.read())
    else:
        text = found.text()
        click.echo(clean(text) if output.is_terminal else text, nl=False)
