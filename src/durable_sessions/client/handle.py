"""What a handle of a session is, however its requests travel."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from durable_sessions.client import calls
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import Appended
from durable_sessions.client.errors import ClientError
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.life import PinnedIncarnation, only
from durable_sessions.client.producer import Line, Lines

L = TypeVar("L")


class SessionHandle(Generic[L]):
    """The id of a session, which of its lives is meant, and the numbers that its appends are sent under."""

    def __init__(self, id: str, lines: Lines[L], incarnation: str | None) -> None:  # noqa: A002
        self.id = id
        self._life = PinnedIncarnation(incarnation)
        self._lines = lines
        self._line = lines.of(id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def incarnation(self) -> str | None:
        """Which session of this id the handle means: the first that has answered it, None before one has."""
        return self._life.incarnation

    def _fork(
        self,
        id: str | None,  # noqa: A002
        at: str | int | None,
        title: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> ApiCall[SessionInfo]:
        life = self._life.incarnation
        return calls.fork(id, self.id, source_life=life, at=at, title=title, metadata=metadata)

    def _deleted(self) -> None:
        """Take note that the session is gone: what is appended later begins a new one."""
        self._line.ended(self._life.incarnation)
        self._life.incarnation = None


class Appending(Generic[L]):
    """One append of a handle: its request, and what the outcome means for the numbers that follow.

    The lock of the line is held from here until the outcome is known.
    """

    def __init__(
        self, session: str, line: Line[L], life: PinnedIncarnation, body: bytes, if_match: str | None
    ) -> None:
        self._line = line
        self._life = life
        self._producer = line.of(life.incarnation)
        call = calls.append(session, body, self._producer.begin(body, if_match), if_match)
        self.call = only(call, life.incarnation or self._producer.life)

    def stored(self, appended: Appended) -> Appended:
        """Take note that the events are durable."""
        self._line.accepted(self._producer, appended.incarnation)
        self._life.incarnation = self._life.incarnation or appended.incarnation
        return appended

    def failed(self, error: ClientError) -> ClientError:
        """Return the error to raise: the same one, or one that tells its cause."""
        return self._producer.failed(error)
