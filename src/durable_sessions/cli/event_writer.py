"""Appends the events that a command was given, some at a time, and says what became of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from durable_sessions.cli.command_errors import ENDED, CommandError, SessionConflictError, ended, kind_of
from durable_sessions.cli.connection import ServerConnection
from durable_sessions.cli.reconnect_wait import ReconnectWait
from durable_sessions.cli.refusal_advice import in_words_of_commands
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Session
from durable_sessions.client.errors import (
    ApiError,
    ClientError,
    ConflictError,
    NotFoundError,
    PreconditionFailedError,
)
from durable_sessions.rendering.text import plural

BATCH_EVENTS_MAX = 400
"""Few enough that the answer can list every event that existed already, so that the counts are exact."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
_EVENT_NUMBER = re.compile(r"^Event [0-9]+(?:, counted from 0)?: ")
"""How the server names an event of a request; a command names the line or the argument."""


class GivenEvent(NamedTuple):
    """An event as it was given, and where: an argument or a line."""

    where: str
    data: bytes


@dataclass(slots=True)
class EventWriter:
    """Appends, and knows how much is durable."""

    connection: ServerConnection
    session: Session
    output: Output
    patience: ReconnectWait
    if_match: str | None
    is_of_lines: bool = False
    count: int = 0
    repeated: int = 0
    differ: int = 0
    next_offset: str = ""

    def write(self, events: list[GivenEvent]) -> None:
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

    def _send(self, batch: list[GivenEvent]) -> None:
        body = b"[" + b",".join(given.data for given in batch) + b"]"
        try:
            appended = self.patience.until_answered(partial(self.session.append_body, body, self.if_match))
        except ClientError as error:
            # If the server names the bad event, the caller says how many before it are stored.
            if self.count and "index" not in getattr(error, "details", ()):
                stored = "event is" if self.count == 1 else f"{self.count:,} events are"
                self.output.note(f"The first {stored} stored.")
            if isinstance(error, PreconditionFailedError) and self.if_match is not None:
                raise self._moved(self.if_match) from error
            if isinstance(error, ConflictError) and error.code in ENDED:
                fork = self.connection.command("fork", self.session.id)
                raise ended(self.session.id, error, fork) from error
            raise
        self.count += len(batch)
        self.repeated += len(appended.repeated)
        self.differ += len(appended.differ)
        self.next_offset = appended.next_offset
        if self.if_match is not None:
            self.if_match = appended.next_offset  # the next batch must follow this one, and nothing else

    def _refused(self, where: str, error: ApiError) -> CommandError:
        """Return what to say of an event that the server does not take."""
        problem = in_words_of_commands(error, _EVENT_NUMBER.sub("", error.message))
        return kind_of(error)(f"{where}: {problem}{stored_before(self.count)}", error.code)

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


def stored_before(stored: int) -> str:
    """Return a line on how many events before a bad one are stored; nothing if there are none."""
    if not stored:
        return ""
    return f"\nThe {stored:,} {plural(stored, 'event')} before it {'is' if stored == 1 else 'are'} stored."


def _batches(events: list[GivenEvent]) -> Iterator[list[GivenEvent]]:
    batch: list[GivenEvent] = []
    held = 0
    for event in events:
        if batch and (len(batch) >= BATCH_EVENTS_MAX or held + len(event.data) > BATCH_BYTES_MAX):
            yield batch
            batch, held = [], 0
        batch.append(event)
        held += len(event.data)
    if batch:
        yield batch
