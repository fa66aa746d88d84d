"""``durable-sessions export``: a session in the format of another tool, or to be read."""

from pathlib import Path

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.atomic_file import with_output_file, write_pieces
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_types import OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Client
from durable_sessions.client.errors import ClientError
from durable_sessions.exporters import FORMATS, ExportOptions
from durable_sessions.rendering.text import plural, size

ARTIFACT_BYTES_MAX = 16 * 1024 * 1024
"""Larger images are linked in a page, not embedded."""


DEFAULT_FORMAT = "jsonl"
_FORMAT_HELP = (
    f"What to write.  [default: by the end of the file's name, such as .html; else {DEFAULT_FORMAT}]"
)


@click.command()
@click.argument("session", type=SESSION)
@with_connection
@click.option("--format", "-f", "name", type=OneOf([*FORMATS]), help=_FORMAT_HELP)
@with_output_file
@click.option("--full", is_flag=True, help="Leave nothing out that the format would shorten.")
def export(
    connection: ServerConnection,
    output: Output,
    session: str,
    name: str | None,
    path: Path | None,
    full: bool,
) -> None:
    """Write all events of SESSION to a file, or to standard output.

    \b
    jsonl           one stored event per line, byte for byte; ds import jsonl takes it back
    managed-agents  the list of events that Anthropic's Managed Agents API would answer
    atif            a trajectory in the Agent Trajectory Interchange Format
    markdown        a document to read or paste
    html            one page to read, which needs nothing else
    """
    name = name or _format_of(path)
    info = connection.find(session)
    options = ExportOptions(full=full, artifact=_Artifacts(connection.client).get, server_url=connection.url)
    beside = path is not None or not output.is_terminal
    with output.progress("exporting", info.event_count, shown=beside) as ticks:
        pieces = FORMATS[name].export(info.raw, ticks.of(connection.lines(info.id)), options)
        if path is None or str(path) == "-":
            for piece in pieces:
                output.bytes(piece)
            return
        written = write_pieces(path, pieces)
    if output.json:
        exported = {
            "session": info.id,
            "format": name,
            "path": str(path),
            "events": ticks.count,
            "bytes": written,
        }
        output.tell(exported)
    else:
        output.note(f"{path}: {ticks.count:,} {plural(ticks.count, 'event')}, {size(written)}")


def _format_of(path: Path | None) -> str:
    """Return the format that goes with the name of a file."""
    if path is None or path.suffix not in {one.suffix for one in FORMATS.values()}:
        return DEFAULT_FORMAT
    fitting = [name for name, one in FORMATS.items() if one.suffix == path.suffix]
    if len(fitting) > 1:
        raise click.UsageError(f"{path.name} can be {' or '.join(fitting)}: say which with --format.")
    return fitting[0]


class _Artifacts:
    """Images that events refer to."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, sha256: str) -> bytes | None:
        """Return the bytes of an artifact, None if it is missing or too large."""
        found = bytearray()
        try:
            for piece in self._client.artifacts.stream(sha256):
                found += piece
                if len(found) > ARTIFACT_BYTES_MAX:
                    return None
        except ClientError:
            return None
        return bytes(found)
