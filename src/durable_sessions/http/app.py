"""The application: every request is answered here, whichever server carries it."""

from collections.abc import Awaitable

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.errors import error_response
from durable_sessions.http.headers import base_url
from durable_sessions.http.message import Answer, Request
from durable_sessions.http.operations import Operations
from durable_sessions.http.paths import DEFAULT_WORKSPACE, STREAM_ROOT
from durable_sessions.http.streams import StreamsFace
from durable_sessions.http.subscriptions import SubscriptionRoutes

_CONTROL_ROOT = STREAM_ROOT + b"__ds"


class Application:
    """Sends a request to the part that answers it; it is a ``Handler``."""

    def __init__(
        self,
        operations: Operations,
        streams: StreamsFace,
        subscriptions: SubscriptionRoutes,
        public_url: str,
    ) -> None:
        self._streams = streams
        self._subscriptions = subscriptions
        self._public_url = public_url
        self.operations = operations

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request, at once where that is possible."""
        try:
            if request.path.startswith(STREAM_ROOT):
                if request.path.startswith(_CONTROL_ROOT) and request.path[len(_CONTROL_ROOT) :][:1] in b"/":
                    return self._control(request)
                return self._streams.handle(request)
            return self.operations.handle(request)
        except DurableSessionsError as error:
            return error_response(error)

    async def _control(self, request: Request) -> Answer:
        rest = request.path[len(_CONTROL_ROOT) + 1 :].decode("latin-1")
        try:
            return await self._subscriptions.handle(
                request, rest, DEFAULT_WORKSPACE, base_url(request, self._public_url)
            )
        except DurableSessionsError as error:
            return error_response(error, control=True)
