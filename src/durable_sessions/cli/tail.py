"""``durable-sessions tail``: a session as it happens."""

import sys

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_within, unknown_types
from durable_sessions.cli.entry_printer import EntryPrinter
from durable_sessions.cli.option_types import Offset, WholeNumber
from durable_sessions.cli.shown_events import start_of_last
from durable_sessions.cli.terminal import Output
from durable_sessions.client import offsets
from durable_sessions.rendering.entries import EntryRole, entry_of
from durable_sessions.rendering.pairing import OpenCalls
from durable_sessions.rendering.threads import Threads

LAST_EVENTS = 20


@click.command()
@click.argument("session", type=SESSION)
@with_connection
@click.option(
    "--last", type=WholeNumber(min=0), help=f"How many shown events to begin with.  [default: {LAST_EVENTS}]"
)
@click.option(
    "--from", "from_", type=WholeNumber(min=0), help="Begin at this position instead; 0 is the first."
)
@click.option("--offset", type=Offset(), help="Begin at a saved offset instead.")
@click.option("--type", "types", multiple=True, help="Only this type, or a family like agent.*; repeatable.")
@click.option("--full", is_flag=True, help="Leave nothing out: whole inputs and outputs, and bookkeeping.")
def tail(
    connection: ServerConnection,
    output: Output,
    session: str,
    last: int | None,
    from_: int | None,
    offset: str | None,
    types: tuple[str, ...],
    full: bool,
) -> None:
    """Follow SESSION live, until it is closed or you press Ctrl-C.

    It goes on by itself when the connection is lost or the server restarts, without a gap or a repeat.
    """
    places = {"--last": last, "--from": from_, "--offset": offset}
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"Give one of {' and '.join(given)}, not both: each says where to begin.")
    info = connection.find(session)
    if offset is None:
        begin = from_
        if begin is None:
            count = LAST_EVENTS if last is None else last
            begin = start_of_last(connection, info, count, types=types, everything=full or output.json)
        offset = offsets.of(begin)
    require_within(connection, info, "--offset" if from_ is None else "--from", offsets.position(offset))
    unknown = unknown_types(connection, info, types)
    if unknown:
        output.note(unknown)
    follower = _Follower(output, full=full)
    try:
        for event in connection.patient.session(info.id).tail(offset=offset, types=types or None):
            follower.take(event.data)
    except KeyboardInterrupt:
        return
    if not output.json:
        output.note(f"{info.id} is closed: no more events will come.")


class _Follower:
    """Shows events immediately; a later result is shown separately, under the name of its call."""

    def __init__(self, output: Output, *, full: bool) -> None:
        self._output = output
        self._printer = EntryPrinter(output, full=full)
        self._calls = OpenCalls()
        self._threads = Threads()

    def take(self, event: dict[str, object]) -> None:
        """Show an event."""
        if self._output.json:
            self._output.tell(event)
        else:
            self._show(event)
        sys.stdout.flush()  # a program behind a pipe gets each event at once

    def _show(self, event: dict[str, object]) -> None:
        entry = entry_of(event)
        self._threads.name(event, entry)
        self._calls.name(entry)
        if entry.role is EntryRole.TOOL:
            self._calls.remember(entry)
        self._printer.paint(entry)
