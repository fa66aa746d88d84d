"""The application: every request is answered here, whichever server carries it."""

from collections.abc import Awaitable

import msgspec

from durable_sessions.errors import DurableSessionsError, MethodNotAllowedError, RouteNotFoundError
from durable_sessions.http.errors import error_response
from durable_sessions.http.headers import base_url
from durable_sessions.http.message import Answer, Request, Response
from durable_sessions.http.metrics import CONTENT_TYPE, Metrics
from durable_sessions.http.paths import DEFAULT_WORKSPACE, STREAM_ROOT
from durable_sessions.http.streams import StreamsFace
from durable_sessions.http.subscriptions import SubscriptionRoutes
from durable_sessions.storage.partition import Partition

_CONTROL_ROOT = STREAM_ROOT + b"__ds"
_JSON = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]


class Application:
    """Sends a request to the part that answers it; it is a ``Handler``."""

    def __init__(
        self,
        partition: Partition,
        streams: StreamsFace,
        subscriptions: SubscriptionRoutes,
        metrics: Metrics,
        public_url: str,
    ) -> None:
        self._partition = partition
        self._streams = streams
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._public_url = public_url
        self.draining = False

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request, at once where that is possible."""
        try:
            if request.path.startswith(STREAM_ROOT):
                if request.path.startswith(_CONTROL_ROOT) and request.path[len(_CONTROL_ROOT) :][:1] in b"/":
                    return self._control(request)
                return self._streams.handle(request)
            return self._operations(request)
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

    def _operations(self, request: Request) -> Response:
        if request.path not in (b"/livez", b"/readyz", b"/metrics"):
            raise RouteNotFoundError(path=request.path.decode("latin-1"))
        if request.method not in (b"GET", b"HEAD"):
            raise MethodNotAllowedError(allow="GET, HEAD")
        if request.path == b"/livez":
            return Response(200, _JSON, b'{"status":"alive"}')
        if request.path == b"/readyz":
            return self._ready()
        return Response(200, [(b"Content-Type", CONTENT_TYPE)], self._metrics.render())

    def _ready(self) -> Response:
        reason = "shutting down" if self.draining else self._partition.committer.failure
        if reason is None:
            return Response(200, _JSON, b'{"status":"ready"}')
        return Response(503, _JSON, msgspec.json.encode({"status": "not ready", "reason": reason}))
