"""What the sync and the async handle of a session have in common."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from durable_sessions.client import calls
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import Appended
from durable_sessions.client.errors import ClientError
from durable_sessions.client.incarnation import PinnedIncarnation, require_incarnation
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.producer import ProducerCache, SessionProducers

L = TypeVar("L")
T = TypeVar("T")


class SessionHandle(Generic[L]):
    """The id of a session, the incarnation it is bound to, and the producers that its appends are sent by."""

    def __init__(
        self,
        id: str,  # noqa: A002
        cache: ProducerCache[L],
        incarnation: str | None,
        epoch: int | None = None,
    ) -> None:
        self.id = id
        self._pinned = PinnedIncarnation(incarnation)
        self._cache = cache
        self._producers = cache.of(id)
        self._epoch = epoch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def incarnation(self) -> str | None:
        """The incarnation of the session that this handle is bound to: the first that answered, or None."""
        return self._pinned.incarnation

    def pinned(self, call: ApiCall[T]) -> ApiCall[T]:
        """Return a call that is only for the incarnation that this handle is bound to."""
        return self._pinned.pin(call)

    def _fork(
        self,
        id: str | None,  # noqa: A002
        at: str | int | None,
        title: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> ApiCall[SessionInfo]:
        source = self._pinned.incarnation
        return calls.fork(id, self.id, source_incarnation=source, at=at, title=title, metadata=metadata)

    def _deleted(self) -> None:
        """Note that the session is gone: a later append creates a new one under the same id."""
        self._producers.ended(self._pinned.incarnation)
        self._pinned.incarnation = None


class HandleAppend(Generic[L]):
    """One append through a handle: its request, and what its outcome means for the next sequence number.

    The caller holds the lock of ``producers`` from here until the outcome is known.
    """

    def __init__(
        self,
        session: str,
        producers: SessionProducers[L],
        pinned: PinnedIncarnation,
        body: bytes,
        if_match: str | None,
        source: str | None = None,
        epoch: int | None = None,
    ) -> None:
        self._producers = producers
        self._pinned = pinned
        self._producer = producers.of(pinned.incarnation)
        call = calls.append(session, body, self._producer.begin(body, if_match), if_match, source, epoch)
        # A handle that is not bound must not carry sequence numbers over to another incarnation either.
        self.call = require_incarnation(call, pinned.incarnation or self._producer.incarnation)

    def stored(self, appended: Appended) -> Appended:
        """Note that the events are durable."""
        self._producers.accepted(self._producer, appended.incarnation)
        self._pinned.incarnation = self._pinned.incarnation or appended.incarnation
        return appended

    def failed(self, error: ClientError) -> ClientError:
        """Return the error to raise: the same one, or the one that it means for a session."""
        return self._producer.failed(error)
