"""``durable-sessions append``: write events to a session."""

import codecs
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import click
import msgspec

from durable_sessions import export_header
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import CommandError, SessionConflictError, WrongInputError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_types import Number, Offset, Pair
from durable_sessions.cli.patience import WAIT_SECONDS, Patience
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.wording import in_options
from durable_sessions.client import Session, encoding
from durable_sessions.client.errors import (
    ApiError,
    ClientError,
    ConflictError,
    NotFoundError,
    PreconditionFailedError,
)
from durable_sessions.rendering.events import encode
from durable_sessions.rendering.text import one_line, plural

BATCH_EVENTS_MAX = 400
"""Few enough that the answer can list every event that existed already, so that the counts are exact."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
READ_BYTES = 1024 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
_ENDED = {"stream_closed": "is closed", "session_archived": "is archived"}
_EVENT_NUMBER = re.compile(r"^Event [0-9]+: ")
"""How the server names an event of a request; a command names the line or the argument."""


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
    target = connection.client.session(session)
    patience = Patience(connection.url, wait, output)
    writer = _Writer(connection, target, output, patience, if_match)
    if kind is not None:
        if event:
            raise click.UsageError("Give --type with its parts, or events as JSON, not both.")
        writer.write([_Given("The event", encode(_made(kind, text, fields)))])
    elif text is not None or fields:
        raise click.UsageError("--text and --field are parts of an event: say which with --type.")
    elif event and event != ("-",):
        writer.write(_from_arguments(event))
    else:
        _from_input(writer, output)
    if closes:
        patience.until_answered(target.close)
    writer.report(output, is_closed=closes)


class _Given(NamedTuple):
    """An event as it was given, and where: an argument or a line."""

    where: str
    data: bytes


@dataclass(slots=True)
class _Writer:
    """Appends, and knows how much is durable."""

    connection: ServerConnection
    session: Session
    output: Output
    patience: Patience
    if_match: str | None
    is_of_lines: bool = False
    count: int = 0
    repeated: int = 0
    differ: int = 0
    next_offset: str = ""

    def write(self, events: list[_Given]) -> None:
        """Append events durably, some at a time."""
        for batch in _batches(events):
            try:
                self._send(batch)
            except ApiError as error:
                index = error.details.get("index")
                if not isinstance(index, int) or not 0 <= index < len(batch):
                    raise
                # The server takes all events of a request or none. Of lines, those before the bad one count.
                if index and self.is_of_lines:
                    self._send(batch[:index])
                raise self._refused(batch[index].where, error) from error

    def _send(self, batch: list[_Given]) -> None:
        body = b"[" + b",".join(given.data for given in batch) + b"]"
        try:
            appended = self.patience.until_answered(partial(self.session.append_body, body, self.if_match))
        except ClientError as error:
            if self.count and "index" not in getattr(error, "details", ()):
                stored = "event is" if self.count == 1 else f"{self.count:,} events are"
                self.output.note(f"The first {stored} stored.")
            if isinstance(error, PreconditionFailedError) and self.if_match is not None:
                raise self._moved(self.if_match) from error
            if isinstance(error, ConflictError) and error.code in _ENDED:
                fork = self.connection.command("fork", self.session.id)
                raise SessionConflictError(
                    f"{self.session.id} {_ENDED[error.code]} and takes no more events. "
                    f"To go on, fork it: {fork}",
                    error.code,
                ) from error
            raise
        self.count += len(batch)
        self.repeated += len(appended.repeated)
        self.differ += len(appended.differ)
        self.next_offset = appended.next_offset
        if self.if_match is not None:
            self.if_match = appended.next_offset

    def _refused(self, where: str, error: ApiError) -> CommandError:
        """Return what to say of an event that the server does not take."""
        problem = in_options(_EVENT_NUMBER.sub("", error.message))
        kind = SessionConflictError if error.status == 409 else WrongInputError
        return kind(f"{where}: {problem}{_before(self.count)}")

    def _moved(self, expected: str) -> SessionConflictError:
        """Return what to say if the session does not end where ``--if-match`` says."""
        said = f"--if-match says {expected}. Nothing more was appended."
        try:
            end = self.session.info().next_offset
        except NotFoundError:
            return SessionConflictError(
                f"There is no session {self.session.id}, and {said} One that is not there yet ends at 0."
            )
        if end > expected:
            what, place = "See what has come since with:", ("--offset", expected)
        else:
            what, place = "It is shorter than that; see its last events with:", ("--tail", "5")
        events = self.connection.command("events", self.session.id, *place)
        return SessionConflictError(f"{self.session.id} ends at {end}, and {said} {what} {events}")

    def report(self, output: Output, *, is_closed: bool) -> None:
        """Say what was done."""
        closed = "; it is closed now" if is_closed else ""
        written = self.count - self.repeated
        if output.json:
            counts = {"appended": written, "repeated": self.repeated, "differ": self.differ}
            output.tell({"session": self.session.id, **counts, "next_offset": self.next_offset or None})
        elif not self.count:
            nothing = f"Nothing was appended to {self.session.id}: there was no event on standard input"
            output.note(f"{nothing}{closed}.")
        else:
            events = f"{written:,} {plural(written, 'event')}"
            output.note(
                f"{events} appended to {self.session.id}{_known(self.repeated, self.differ)}; "
                f"it ends at {self.next_offset}{closed}"
            )


def _known(repeated: int, differ: int) -> str:
    """Return the part of the message about events whose ids existed already."""
    if not repeated:
        return ""
    there = f", {repeated:,} {'was' if repeated == 1 else 'were'} there already"
    if not differ:
        return there
    if repeated == 1:
        return f"{there} and differs: the first one stays"
    return f"{there}, of which {differ:,} {'differs' if differ == 1 else 'differ'}: the first ones stay"


def _from_arguments(given: tuple[str, ...]) -> list[_Given]:
    events = [
        _Given(f"Event {number}", one.encode(errors="surrogateescape")) for number, one in enumerate(given, 1)
    ]
    for event in events:
        problem = _problem(event.data)
        if problem:
            raise _no_event(event, problem)
    return events


def _from_input(writer: _Writer, output: Output) -> None:
    stream = sys.stdin.buffer
    typed = stream.isatty()
    if typed:
        output.note("Type one event per line, as JSON; Ctrl-D ends.")
    writer.is_of_lines = True
    with output.progress("appending", None, shown=not typed) as ticks:
        number = 0
        for lines in _lines(stream):
            events: list[_Given] = []
            for line in lines:
                number += 1
                if number == 1 and export_header.decode(line) is not None:
                    continue
                given = _Given(f"Line {number:,}", line.strip())
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
    read = getattr(stream, "read1", stream.read)
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


def _no_event(given: _Given, problem: str, stored: int = 0) -> WrongInputError:
    shown = one_line(given.data.decode(errors="replace"), 60)
    return WrongInputError(f"{given.where} is not an event: {problem}. It is: {shown}{_before(stored)}")


def _before(stored: int) -> str:
    """Return a line on how many events before a bad one are stored; nothing if there are none."""
    if not stored:
        return ""
    return f"\nThe {stored:,} {plural(stored, 'event')} before it {'is' if stored == 1 else 'are'} stored."


def _made(kind: str, text: str | None, fields: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind}
    if text is not None:
        said = sys.stdin.read() if text == "-" else text
        event["content"] = [{"type": "text", "text": said}]
    for name, value in fields:
        event.update([_member(name, value)])
    return event


def _member(name: str, value: str) -> tuple[str, Any]:
    """Return a member: ``name=text``, or ``name:=json``."""
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise click.UsageError(
            f"{value!r} is not JSON ({error}); {name[:-1]}=… takes it as a text."
        ) from error


def _batches(events: list[_Given]) -> Iterator[list[_Given]]:
    batch: list[_Given] = []
    held = 0
    for event in events:
        if batch and (len(batch) >= BATCH_EVENTS_MAX or held + len(event.data) > BATCH_BYTES_MAX):
            yield batch
            batch, held = [], 0
        batch.append(event)
        held += len(event.data)
    if batch:
        yield batch
