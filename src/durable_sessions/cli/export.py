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


@click.command()
@click.argument("session", type=SESSION)
@with_connection
@click.option("--format", "-f", "name", type=OneOf([*FORMATS]), required=True, help="What to write.")
@with_output_file
@click.option("--full", is_flag=True, help="Leave nothing out that the format would shorten.")
def export(
    connection: ServerConnection, output: Output, session: str, name: str, path: Path | None, full: bool
) -> None:
    """Write all events of SESSION to a file, or to standard output.

    \b
    jsonl           one stored event per line, byte for byte; ds import jsonl takes it back
    managed-agents  the list of events that Anthropic's Managed Agents API would answer
    atif            a trajectory in the Agent Trajectory Interchange Format
    markdown        a document to read or paste
    html            one page to read, which needs nothing else
    """
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
