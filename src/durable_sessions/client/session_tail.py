"""Following a session: the reader's position, which turns many connections into one sequence."""

from collections.abc import Iterable

import httpx2

from durable_sessions.client import encoding, pages
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import nothing, offset_text, session_path
from durable_sessions.client.errors import NotFoundError
from durable_sessions.client.event import Event
from durable_sessions.client.incarnation import PinnedIncarnation
from durable_sessions.client.pages import ItemPage
from durable_sessions.client.resumable import ResumableTransfer
from durable_sessions.client.retry import Attempts, pause_seconds
from durable_sessions.client.sse import Frames

SILENCE_SECONDS_MAX = 45.0
"""The server sends a heartbeat at least every 15 seconds; a connection silent for this long is dead."""


class SessionTail(ResumableTransfer[Event]):
    """The events of a session from an offset on, each once and in order.

    Every event has its offset, so the next connection resumes after the last event that arrived whole. When
    the server ends a connection in good order, a page of events tells why: either the session is closed and
    all of it was received, or there is more to come. All connections read one incarnation of the session.
    """

    def __init__(
        self,
        session: str,
        offset: str | int | None,
        types: str | Iterable[str] | None,
        attempts: Attempts,
        pinned: PinnedIncarnation | None = None,
    ) -> None:
        super().__init__(attempts)
        self._session = session
        self._pinned = pinned or PinnedIncarnation()
        self._offset = "-1" if offset is None else offset_text(offset)
        self._types = pages.type_parameters(types)
        self._frames = Frames()
        self._pieces = 0
        self._over = False
        self._deleted = False
        # "now" is resolved to an offset once: if the first connection failed, a second "now" would be later,
        # and the events in between would be missed.
        self._needs_page = offset == "now"

    def is_over(self) -> bool:
        """Say whether the session is closed and all of it was received."""
        return self._over

    def needs_page(self) -> bool:
        """Say whether a page must be read before the next connection."""
        return self._needs_page

    def page(self) -> ApiCall[ItemPage[Event]]:
        """Return the request for the page that shows whether the session is closed."""
        types = [value for _, value in self._types]
        return pages.events(self._session, offset=self._offset, types=types, pinned=self._pinned).call()

    def take_page(self, page: ItemPage[Event]) -> list[Event]:
        """Return the events of a page, and resume after it."""
        assert page.next_offset is not None
        self._offset = page.next_offset
        self._needs_page = not page.up_to_date
        self._over = page.up_to_date and page.closed
        return page.items

    def connect(self) -> ApiCall[None]:
        """Return the request for the events that have not been received yet."""
        self._frames = Frames()
        self._pieces = 0
        path = session_path(self._session, "events", "stream")
        return self._pinned.pin(ApiCall("GET", path, nothing, (("offset", self._offset), *self._types)))

    def connected(self, answer: httpx2.Response) -> None:
        """Bind all later connections to the incarnation that answered this one."""
        self._pinned.learn(answer)

    def take(self, piece: bytes) -> list[Event]:
        """Return the events that this piece of the body completes."""
        self._pieces += 1
        try:
            events = [Event(encoding.decode(data)) for data in self._frames.feed(piece)]
            # An event without an offset is not stored; it announces why the connection is about to end.
            if events and "offset" not in events[-1]:
                self._deleted = events.pop().type == "session.deleted"
            if events:
                self._offset = events[-1].next_offset
        except (ValueError, KeyError, TypeError) as error:
            raise httpx2.RemoteProtocolError("This is no event stream of a session") from error
        # Only now: something that answers 200 with anything else must not be asked for ever. A piece without
        # an event counts, too: on a quiet session there are only heartbeats.
        self._attempts.succeeded()
        return events

    def ended(self) -> float:
        """Note that the server ended the connection; return how long to wait before the next one."""
        if self._deleted:
            raise NotFoundError(
                404,
                "not_found_error",
                f"The session {self._session} was deleted while it was followed.",
                details={"error_code": "session_not_found"},
            )
        self._needs_page = True
        # A busy server ends a connection right after the first piece; reconnecting at once would not help.
        return 0.0 if self._pieces > 1 else pause_seconds(1)
