"""What operators ask for: health, metrics, and a flush now."""

from collections.abc import Awaitable

import msgspec

from durable_sessions.errors import DurableSessionsError, MethodNotAllowedError, RouteNotFoundError
from durable_sessions.http.errors import error_response
from durable_sessions.http.message import Answer, Request, Response
from durable_sessions.http.metrics import CONTENT_TYPE, Metrics
from durable_sessions.storage.bucket_archive import BucketArchive
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.partition import Partition

_JSON = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_READING = (b"GET", b"HEAD")


class Operations:
    """Answers everything outside of the faces of the streams."""

    def __init__(
        self, partition: Partition, archive: BucketArchive, flusher: Flusher, metrics: Metrics
    ) -> None:
        self._partition = partition
        self._archive = archive
        self._flusher = flusher
        self._metrics = metrics
        self.draining = False

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request for health, metrics or a flush."""
        if request.path == b"/livez":
            _require(request, *_READING)
            return Response(200, _JSON, b'{"status":"alive"}')
        if request.path == b"/readyz":
            _require(request, *_READING)
            return self._ready()
        if request.path == b"/metrics":
            _require(request, *_READING)
            return Response(200, [(b"Content-Type", CONTENT_TYPE)], self._metrics.render())
        if request.path == b"/v1/admin/flush":
            _require(request, b"POST")
            return self._flush()
        raise RouteNotFoundError(path=request.path.decode("latin-1"))

    def _ready(self) -> Response:
        said: dict[str, object] = {"status": "ready"}
        failure = self._flusher.failure
        if failure is not None:
            said["bucket"] = {"failing_since_ms": failure.since_ms, "reason": failure.reason}
        reason = "shutting down" if self.draining else self._partition.refusal
        if reason is None:
            return Response(200, _JSON, msgspec.json.encode(said))
        return Response(503, _JSON, msgspec.json.encode({**said, "status": "not ready", "reason": reason}))

    async def _flush(self) -> Answer:
        try:
            await self._flusher.flush_all()
        except DurableSessionsError as error:
            return error_response(error)
        manifest = self._archive.manifest
        said = {"manifest": manifest.number, "flushed_through": manifest.flushed_through}
        return Response(200, _JSON, msgspec.json.encode(said))


def _require(request: Request, *methods: bytes) -> None:
    if request.method not in methods:
        raise MethodNotAllowedError(allow=b", ".join(methods).decode())
