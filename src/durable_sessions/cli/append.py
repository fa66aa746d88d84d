"""``durable-sessions append``: write events to a session."""

import codecs
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, BinaryIO

import click

from durable_sessions import export_header
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import WrongInputError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.event_writer import EventWriter, GivenEvent, stored_before
from durable_sessions.cli.member import member
from durable_sessions.cli.option_types import Number, Offset, Pair
from durable_sessions.cli.reconnect_wait import WAIT_SECONDS, ReconnectWait
from durable_sessions.cli.terminal import Output
from durable_sessions.client import encoding
from durable_sessions.rendering.entries import KNOWN_TYPES
from durable_sessions.rendering.events import encode
from durable_sessions.rendering.text import one_line

READ_BYTES = 1024 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
_ONLY = "The event"
_MISSPELT_SIMILARITY = 0.85
"""How near a type must be to a known one to be doubted: types of one's own are common, and no mistake."""


@click.command()
@click.argument("session", type=SESSION)
@click.argument("event", nargs=-1)
@with_connection
@click.option("--type", "kind", metavar="TYPE", help="Append one event of this type, such as user.message.")
@click.option("--text", help="The text of that event's content; - reads it from standard input.")
@click.option("--field", "fields", type=Pair(), multiple=True, help="A member of that event; repeatable.")
@click.option("--if-match", type=Offset(), help="Only if the session still ends at this offset.")
@click.option("--close", "closes", is_flag=True, help="Close the session behind it: it takes no more events.")
@click.option(
    "--wait",
    type=Number(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to try again while the server does not answer.",
)
def append(
    connection: ServerConnection,
    output: Output,
    session: str,
    event: tuple[str, ...],
    kind: str | None,
    text: str | None,
    fields: tuple[tuple[str, str], ...],
    if_match: str | None,
    closes: bool,
    wait: float,
) -> None:
    """Append events to SESSION, which is created if it is not there.

    \b
    one event by its parts      ds append build-42 --type user.message --text "Make it green."
    events as JSON              ds append build-42 '{"type":"note","n":1}' '{"type":"note","n":2}'
    one event per line          my-agent | ds append build-42
    the JSON of a member        ds append build-42 --type note --field n:=7 --field who=me

    When the command ends with 0, all events are durable. Lines are appended as they come, in order and each
    once, whatever happens to the connection. While the server restarts it waits.
    """
    target = connection.as_worker(session)
    patience = ReconnectWait(connection.url, wait, output)
    writer = EventWriter(connection, target, output, patience, if_match)
    if kind is not None:
        if event:
            raise click.UsageError("Give --type with its parts, or events as JSON, not both.")
        writer.write([GivenEvent(_ONLY, encode(_made(kind, text, fields)))])
    elif text is not None or fields:
        raise click.UsageError("--text and --field are parts of an event: say which with --type.")
    elif event and event != ("-",):
        writer.write(_from_arguments(event))
    else:
        _from_input(writer, output)
    if closes:
        patience.until_answered(target.close)
    writer.report(output, is_closed=closes)
    if kind is not None and (remark := _misspelt(kind)) and not output.json:
        output.note(remark)


def _misspelt(kind: str) -> str:
    """Return a remark on a type of one's own that is nearly one that is known; it was stored as it is."""
    if kind in KNOWN_TYPES:
        return ""
    meant = get_close_matches(kind, KNOWN_TYPES, n=1, cutoff=_MISSPELT_SIMILARITY)
    return f"{kind} is a type of your own. Did you mean {meant[0]}?" if meant else ""


def _from_arguments(given: tuple[str, ...]) -> list[GivenEvent]:
    events = [
        GivenEvent(f"Event {number}" if len(given) > 1 else _ONLY, one.encode(errors="surrogateescape"))
        for number, one in enumerate(given, 1)
    ]
    for event in events:
        problem = _problem(event.data)
        if problem:
            raise _no_event(event, problem)
    return events


def _from_input(writer: EventWriter, output: Output) -> None:
    stream = sys.stdin.buffer
    typed = stream.isatty()
    if typed:
        output.note("Type one event per line, as JSON; Ctrl-D ends.")
    writer.is_of_lines = True
    with output.progress("appending", None, shown=not typed) as ticks:
        number = 0
        for lines in _lines(stream):
            events: list[GivenEvent] = []
            for line in lines:
                number += 1
                if number == 1 and export_header.decode(line) is not None:
                    continue  # an export may be appended as it is; its first line is about the session
                given = GivenEvent(f"Line {number:,}", line.strip())
                if not given.data:
                    continue
                problem = _problem(given.data)
                if problem:
                    writer.write(events)
                    raise _no_event(given, problem, writer.count)
                events.append(given)
            writer.write(events)
            ticks.add(len(events))


def _lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that are available, so that slow input is appended without delay."""
    rest = b""
    is_first = True
    read = getattr(stream, "read1", stream.read)  # read1 returns what has come; read would wait for all of it
    while piece := read(READ_BYTES):
        if is_first:
            piece, is_first = piece.removeprefix(codecs.BOM_UTF8), False  # some editors begin a file with it
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise WrongInputError(
                f"A line is longer than {LINE_BYTES_MAX:,} bytes; put large things into artifacts."
            )
        if lines:
            yield lines
    if rest:
        yield [rest]


def _problem(line: bytes) -> str:
    """Return why a line is not an event; empty if it is one."""
    try:
        value = encoding.decode(line)
    except ValueError:
        return "it is not JSON"
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return ""
    return 'an event is an object with a type, such as {"type":"note"}'


def _no_event(given: GivenEvent, problem: str, stored: int = 0) -> WrongInputError:
    shown = one_line(given.data.decode(errors="replace"), 60)
    where = "This" if given.where == _ONLY else given.where
    return WrongInputError(f"{where} is not an event: {problem}. It is: {shown}{stored_before(stored)}")


def _made(kind: str, text: str | None, fields: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind}
    if text is not None:
        said = sys.stdin.read() if text == "-" else text
        event["content"] = [{"type": "text", "text": said}]
    for field in fields:
        name, value = member(*field)
        if name in event:
            given = {"type": "--type", "content": "--text"}.get(name, "another --field")
            raise click.UsageError(f"--field {name} is given twice: {given} has it, too.")
        event[name] = value
    return event
