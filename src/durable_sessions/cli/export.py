"""``durable-sessions export``: a session in the format of another tool, or to be read."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.atomic_file import with_output_file, write_pieces
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_types import OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Client
from durable_sessions.client.errors import ClientError, NotFoundError
from durable_sessions.exporters import FORMATS, ExportOptions
from durable_sessions.rendering.text import plural, size

ARTIFACT_BYTES_MAX = 16 * 1024 * 1024
"""Larger images are linked in a page, not embedded."""


DEFAULT_FORMAT = "jsonl"
DRAWINGS = {"mermaid": ".mmd", "dot": ".dot"}
"""The graph of a session and its family, which the server makes, by the end of the file's name."""
_SUFFIXES = {name: one.suffix for name, one in FORMATS.items()} | DRAWINGS
_FORMAT_HELP = (
    f"What to write.  [default: by the end of the file's name, such as .html; else {DEFAULT_FORMAT}]"
)


class _Format(OneOf):
    """A format by its name, or by how its files end if no other format's do."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        ending = [name for name, suffix in _SUFFIXES.items() if suffix == f".{value}"]
        return super().convert(ending[0] if len(ending) == 1 else value, param, ctx)


@click.command()
@click.argument("session", type=SESSION)
@with_connection
@click.option("--format", "-f", "name", type=_Format([*_SUFFIXES]), help=_FORMAT_HELP)
@with_output_file
@click.option("--full", is_flag=True, help="Leave nothing out that the format would shorten.")
@click.option("--content", is_flag=True, help="Also what was said, called and returned, in otlp.")
def export(
    connection: ServerConnection,
    output: Output,
    session: str,
    name: str | None,
    path: Path | None,
    full: bool,
    content: bool,
) -> None:
    """Write all events of SESSION to a file, or to standard output.

    \b
    jsonl           one stored event per line, byte for byte; ds import jsonl takes it back
    managed-agents  the list of events that Anthropic's Managed Agents API would answer
    atif            a trajectory in the Agent Trajectory Interchange Format
    otlp            a trace for OpenTelemetry, by its conventions for generative AI
    prov            where everything came from, as PROV-JSON
    inspect         an evaluation's log for Inspect (EvalLog 2)
    markdown        a document to read or paste
    html            one page to read, which needs nothing else
    mermaid, dot    what led to what in the session and its family, as a drawing
    """
    name = name or _format_of(path)
    info = connection.find(session)
    options = ExportOptions(
        full=full,
        content=content,
        artifact=_Artifacts(connection.client).get,
        other_session=partial(_other_session, connection.client),
        server_url=connection.url,
    )
    # On a terminal the bar and the export would be drawn over each other.
    beside = path is not None or not output.is_terminal
    with output.progress("exporting", info.event_count, shown=beside) as ticks:
        if name in DRAWINGS:
            drawing = connection.client.session(info.id).graph(name)
            pieces = iter((str(drawing).encode(),))
        else:
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
        output.tell({key: value for key, value in exported.items() if key != "events" or name in FORMATS})
    elif name in DRAWINGS:
        output.note(f"{path}: {size(written)}")
    else:
        form = "" if path.suffix in _SUFFIXES.values() else f" as {name}"
        output.note(f"{path}: {ticks.count:,} {plural(ticks.count, 'event')}{form}, {size(written)}")


def _format_of(path: Path | None) -> str:
    """Return the format that goes with the name of a file."""
    if path is None or path.suffix not in _SUFFIXES.values():
        return DEFAULT_FORMAT
    fitting = [name for name, suffix in _SUFFIXES.items() if suffix == path.suffix]
    if len(fitting) > 1:
        raise click.UsageError(f"{path.name} can be {' or '.join(fitting)}: say which with --format.")
    return fitting[0]


def _other_session(client: Client, session: str) -> Mapping[str, Any] | None:
    """Return the object of a session, None if it is gone."""
    try:
        return client.sessions.get(session).raw
    except NotFoundError:
        return None


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
                # Known only while it is read: what an artifact says of its size is not asked for.
                if len(found) > ARTIFACT_BYTES_MAX:
                    return None
        except ClientError:
            return None
        return bytes(found)
