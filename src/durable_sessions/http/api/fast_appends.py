"""The fast path: the most common appends, of one plain body to a stream or session that exists.

Each decision here is either the one that the handlers make, by the same functions, or none at all: then
the request is handled in full, by :class:`~durable_sessions.http.api.app.Application`. So a refusal is
always made there, and nothing is counted or recorded twice.
"""

from typing import NamedTuple

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.api.origin import OriginRules
from durable_sessions.http.api.sessions.routes import SessionsFace
from durable_sessions.http.api.streams import StreamsFace
from durable_sessions.http.carrier.message import OWN, Request, Response
from durable_sessions.http.paths import STREAM_ROOT
from durable_sessions.storage.door import Told

_WRITER = Role.WRITER  # a module global: looking up an enum member is measurable per append

_MEANINGLESS = frozenset(
    b"host content-type user-agent accept accept-encoding accept-language authorization x-api-key "
    b"cache-control pragma traceparent tracestate baggage".split()
)
"""Headers that mean nothing to an append, or are looked at here; a request with any other is handled."""


class CommonHead(NamedTuple):
    """What requests with the same headers have in common; ``keyed`` says whether they needed a key."""

    content_type: str | None
    headers: dict[bytes, bytes]
    keyed: bool


class FastAppends:
    """Takes appends that the faces of an application would answer with 204 once they are durable.

    While ``closed`` it takes none.
    """

    def __init__(
        self,
        auth: Authenticator,
        rules: OriginRules,
        streams: StreamsFace,
        sessions: SessionsFace,
    ) -> None:
        self._auth = auth
        self._rules = rules
        self._streams = streams
        self._sessions = sessions
        self.closed: DurableSessionsError | None = None

    def common(self, request: Request) -> CommonHead | None:
        """Return what all requests with these headers have in common, None if each must be handled."""
        headers = request.headers
        if not headers.keys() <= _MEANINGLESS:
            return None
        keyed = self._auth.keys_required
        try:
            preflight = self._rules.admit(request, keyed=keyed)
        except DurableSessionsError:
            return None
        if preflight is not None or request.audience != OWN:
            return None
        content_type = headers.get(b"content-type")
        return CommonHead(None if content_type is None else content_type.decode("latin-1"), headers, keyed)

    def caller(self, common: object) -> Caller | None:
        """Return who makes requests with these headers, None if each must be handled, or is refused."""
        assert type(common) is CommonHead
        caller = self._auth.known_caller(common.headers, keyed=common.keyed)
        return None if caller is None or caller.role < _WRITER else caller

    def take(
        self, caller: Caller, content_type: str | None, target: bytes, body: bytes, waiting: Told[bytes]
    ) -> bool:
        """Take an append of a caller if nothing can refuse it, and tell ``waiting`` when it is durable."""
        if self.closed is not None:
            return False
        if target.startswith(STREAM_ROOT):
            return self._streams.take(caller.workspace, target, content_type, body, waiting)
        return self._sessions.take(caller.workspace, caller.principal, target, body, waiting)

    def refusal(
        self, caller: Caller | None, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        """Return the answer to an append that was taken, and has failed."""
        if caller is None or target.startswith(STREAM_ROOT):
            return refusal_at(target, error, request_id)
        return self._sessions.failure(caller, target, error, request_id)
