"""Operations over HTTP: health, metrics, flush, reindex."""

from collections.abc import Awaitable
from typing import ClassVar

import msgspec

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.key_table import KeyTable
from durable_sessions.errors import (
    DurableSessionsError,
    ForbiddenError,
)
from durable_sessions.http.api.auth import Authenticator, Caller, Role
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.api.health import EngineHealth, Health
from durable_sessions.http.api.metrics import CONTENT_TYPE, Metrics
from durable_sessions.http.api.route_table import Handler, Match, Resource, unknown_route
from durable_sessions.http.api.server_status import StatusPart, StatusReport, merged_status
from durable_sessions.http.bodies.operations import (
    Alive,
    FailingListener,
    FailingTask,
    FlushResult,
    KeyCounts,
    LowSpace,
    PartitionFlush,
    Readiness,
    Reindexing,
    Reopening,
    SearchReadiness,
)
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.search.feed import Feed
from durable_sessions.storage.door import BucketControl, Streams
from durable_sessions.tasks import TaskSupervisor

_ALIVE = msgspec.json.encode(Alive("alive"))
_JSON = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]


class Operations:
    """Answers requests about the server as a whole; only health requests need no key."""

    def __init__(
        self,
        streams: Streams,
        bucket: BucketControl,
        metrics: Metrics,
        auth: Authenticator,
        keys: KeyTable,
        audit: Audit,
        feed: Feed,
        supervisor: TaskSupervisor,
        health: Health,
        engine_health: EngineHealth,
        report: StatusReport,
    ) -> None:
        self._report = report
        self._supervisor = supervisor
        self._health = health
        self._engine_health = engine_health
        self._auth = auth
        self._keys = keys
        self._audit = audit
        self._feed = feed
        self._streams = streams
        self._bucket = bucket
        self._metrics = metrics
        self.draining = False

    def require_writer(self) -> None:
        """Refuse requests about data once this server is fenced: another one has the bucket."""
        self._streams.require_writer()

    def handle(self, request: Request, found: Match | None) -> Answer | Awaitable[Answer]:
        """Answer a request for health, metrics or a flush, and refuse paths that nothing serves."""
        caller = self._auth.caller(request) if request.path.startswith(b"/v1/") else None
        if found is None or not self._serves(found.resource):
            # Below /v1, a caller without a key must not learn which paths exist.
            raise unknown_route(request.path)
        return self.handlers[found.resource.route(request).id](self, request, caller)

    def _serves(self, resource: Resource) -> bool:
        """Say whether a resource is answered here; missing pages of the manual are not."""
        return any(route.id in self.handlers for route in resource.methods.values())

    def _live(self, request: Request, _: Caller | None) -> Response:
        return Response(200, _JSON, _ALIVE)

    def _readiness(self, request: Request, _: Caller | None) -> Response:
        return self._ready(detailed=self.is_known(request))

    def _metered(self, request: Request, _: Caller | None) -> Response:
        self._require_home(self._auth.caller(request))
        return Response(200, [(b"Content-Type", CONTENT_TYPE)], self._metrics.render())

    def is_known(self, request: Request) -> bool:
        """Say whether a caller may see the details of problems, which name files and buckets."""
        try:
            self._require_home(self._auth.caller(request))
        except DurableSessionsError:
            return False
        return True

    def _require_home(self, caller: Caller) -> None:
        # An admin of another workspace is a stranger to the server as a whole.
        if caller.workspace != self._keys.home:
            raise ForbiddenError(
                problem=f"This is about the whole server. Use a key of the workspace {self._keys.home}."
            )

    def _ready(self, *, detailed: bool) -> Response:
        said = self.readiness(detailed=detailed)
        return Response(503 if said.status == "not ready" else 200, _JSON, msgspec.json.encode(said))

    def readiness(self, *, detailed: bool) -> Readiness:
        """Return whether this partition takes work, and what hinders it."""
        said = Readiness("ready", self.searchable(detailed=detailed))
        tasks = self._supervisor.failures()
        if tasks:
            said.status = "degraded"
            said.tasks = [FailingTask(*one) if detailed else FailingTask(one.task) for one in tasks]
        listeners = self._streams.failing_listeners
        if listeners:
            said.status = "degraded"
            said.listeners = [
                FailingListener(name, error if detailed else msgspec.UNSET)
                for name, error in listeners.items()
            ]
        if self._health.low_space is not None:
            said.status = "degraded"
            said.disk = LowSpace(self._health.disk_free_bytes or 0, self._health.disk_low_bytes or 0)
        failure = self._bucket.failure
        if failure is not None and detailed:
            said.bucket = {"failing_since_ms": failure.since_ms, "reason": failure.reason}
        # A failing task or a full disk makes it degraded only: a load balancer that took it for dead would
        # send the appends, which still work, nowhere.
        reason = "shutting down" if self.draining else self._streams.refusal
        if reason is None:
            return said
        said.status = "not ready"
        if detailed:
            said.reason = reason
        if detailed and self._engine_health.reopening_failure is not None:
            said.reopening = Reopening(self._engine_health.reopening_failure)
        return said

    def searchable(self, *, detailed: bool) -> SearchReadiness:
        """Return the progress of search, which never makes the server unready."""
        feed = self._feed
        if feed.failure is not None:
            return SearchReadiness("failing", reason=feed.failure if detailed else msgspec.UNSET)
        if feed.paused is not None:
            return SearchReadiness("paused", reason=feed.paused if detailed else msgspec.UNSET)
        if not feed.is_building:
            return SearchReadiness("ready")
        return SearchReadiness("building", feed.events_lacking, feed.events_left)

    async def admit(self, request: Request, caller: Caller, act: str) -> None:
        """Admit an admin of the whole server; the attempt is audited in any case."""
        request_id = request.id.decode()
        try:
            self.require_operator(caller)
        except ForbiddenError as error:
            self._audit.refused(caller, act, error, request_id)
            raise
        await self._audit.record(Act(f"{act}.requested", caller, caller.workspace, request_id))

    def require_operator(self, caller: Caller) -> None:
        """Refuse callers other than admins of the whole server."""
        caller.require(Role.ADMIN)
        self._require_home(caller)

    def _status(self, request: Request, caller: Caller) -> Answer:
        try:
            self.require_operator(caller)
        except DurableSessionsError as error:
            return refusal_at(request.path, error, request.id)
        part = self.status()
        return Response(200, _JSON, merged_status({part.partition.partition: part}, self.key_counts()))

    def status(self) -> StatusPart:
        """Return what this partition tells operators, for somebody who was admitted."""
        return self._report.part(self.readiness(detailed=True))

    def key_counts(self) -> KeyCounts:
        """Return how many keys this server has."""
        return self._report.keys()

    async def _reindex(self, request: Request, caller: Caller) -> Answer:
        try:
            await self.admit(request, caller, "reindex")
        except DurableSessionsError as error:
            return refusal_at(request.path, error, request.id)
        self.reindex()
        return Response(202, _JSON, msgspec.json.encode(Reindexing("building")))

    async def _flush(self, request: Request, caller: Caller) -> Answer:
        try:
            await self.admit(request, caller, "flush")
            flushed = await self._bucket.flush_all()
        except DurableSessionsError as error:
            return refusal_at(request.path, error, request.id)
        return Response(200, _JSON, msgspec.json.encode(FlushResult(*flushed)))

    def reindex(self) -> None:
        """Begin to rebuild the search index of this partition."""
        self._feed.rebuild()

    async def flush(self) -> PartitionFlush:
        """Flush this partition, for somebody who was admitted."""
        return PartitionFlush(*await self._bucket.flush_all())

    handlers: ClassVar[dict[str, Handler]] = {
        "live": _live,
        "ready": _readiness,
        "metrics": _metered,
        "getStatus": _status,
        "flush": _flush,
        "reindex": _reindex,
    }
