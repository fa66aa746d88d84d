"""Following the list of sessions: what changes, and when it has to be listed anew."""

from collections.abc import Iterable
from dataclasses import dataclass

import httpx2

from durable_sessions.client import encoding
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import nothing
from durable_sessions.client.info import SessionInfo, session_info
from durable_sessions.client.resumable import ResumableTransfer
from durable_sessions.client.retry import Attempts, pause_seconds
from durable_sessions.client.sse import Frames


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """Sessions that have changed, and the ids of those that are gone.

    ``gap`` says that a connection has just begun: what changed before it is not told, so list the sessions
    now. Nothing that changes after that is missed, until the next gap.
    """

    changed: list[SessionInfo]
    gone: list[str]
    gap: bool = False


class ListTail(ResumableTransfer[SessionChanges]):
    """The changes of the list of sessions, over one connection after the other."""

    def __init__(self, attempts: Attempts) -> None:
        super().__init__(attempts)
        self._frames = Frames()
        self._has_begun = False

    def connect(self) -> ApiCall[None]:
        """Return the request that follows the list."""
        self._frames = Frames()
        self._has_begun = False
        return ApiCall("GET", "/v1/sessions", nothing, (("live", "sse"),))

    def take(self, piece: bytes) -> Iterable[SessionChanges]:
        """Return the changes that this piece of the body completes."""
        for data in self._frames_of(piece):
            changes = _changes(data)
            # Only now: something that answers 200 with anything else must not be asked for ever.
            self._attempts.succeeded()
            if not self._has_begun:
                self._has_begun = True
                yield SessionChanges([], [], gap=True)
            if changes is not None:
                yield changes

    def _frames_of(self, piece: bytes) -> list[bytes]:
        try:
            return self._frames.feed(piece)
        except ValueError as error:
            raise _no_list() from error

    def ended(self) -> float:
        """Note that the server ended the connection; return how long to wait before the next one."""
        return 0.0 if self._has_begun else pause_seconds(1)


def _changes(data: bytes) -> SessionChanges | None:
    """Return the changes of a frame, None for one that only says that the list is followed."""
    try:
        said = encoding.decode(data)
        if "changed" not in said:
            return None
        return SessionChanges([session_info(one) for one in said["changed"]], said["gone"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_list() from error


def _no_list() -> httpx2.RemoteProtocolError:
    return httpx2.RemoteProtocolError("This is no live list of sessions")
