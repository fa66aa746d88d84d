"""The whole server: an engine, the HTTP server in front of it, and the supervision of both."""

import asyncio
import sqlite3
from collections.abc import Awaitable

import structlog

from durable_sessions.access.keys import Keys
from durable_sessions.clock import Clock, SystemClock
from durable_sessions.errors import (
    BucketError,
    DurableSessionsError,
    KeysRequiredError,
    LogDamagedError,
    LogError,
    LogFencedError,
    LogLockedError,
    LogMisconfiguredError,
    LogRegressedError,
    LogVersionError,
    SettingsError,
)
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.health import Health
from durable_sessions.http.carrier.message import Admitted, Answer, Request
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.node.disk_space import DiskSpace, Space
from durable_sessions.node.engine import Engine
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.listen_policy import cannot_listen, require_guarded
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.settings import Settings
from durable_sessions.tasks import Task

logger = structlog.get_logger(__name__)

_HEALING = (LogError, BucketError, OSError, sqlite3.Error)
"""Errors of reopening that may go away, so it is retried."""
_FINAL = (
    LogDamagedError,
    LogFencedError,
    LogLockedError,
    LogMisconfiguredError,
    LogRegressedError,
    LogVersionError,
)
"""Of these, errors that are permanent."""
_OBJECTS_OF_STREAM, _OBJECTS_OF_CONNECTION = 8, 40


class Service:
    """One process that serves one data directory.

    When the log fails, nothing more is acknowledged until the whole engine has been opened again from
    what is on disk, as after a restart. That happens here, behind the same socket, as soon as the
    disk can be written again.
    """

    engine: Engine
    server: HttpServer
    _keeper: Task

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        clock: Clock,
        ids: Ids,
        disk: Disk,
        partition: PartitionId,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._clock = clock
        self._ids = ids
        self._disk = disk
        self._partition_id = partition
        self._pause_seconds = limits.reopen_seconds
        self._writers: set[str] = set()
        self._failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.supervisor = Supervisor(clock, limits)
        self.health = Health()

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        disk: Disk = REAL_DISK,
        partition: PartitionId = ONLY_PARTITION,
    ) -> "Service":
        """Return a service that has replayed its log and can answer, but does not listen yet."""
        limits = limits or settings.limits()
        service = cls(settings, limits, clock or SystemClock(), ids or RandomIds(), disk, partition)
        service.engine = await service._open_engine()
        service.server = service.health.server = HttpServer(
            service.handle, limits, admission=CurrentAdmission(service), answer_format=ANSWER_FORMAT
        )
        space = DiskSpace(settings.data, settings.low_space_bytes, limits, service._space_changed)
        service.supervisor.start("disk space", space.run)
        service.supervisor.start("collector", lambda: COLLECTOR.run(service._objects))
        service._keeper = service.supervisor.start("engine", service._keep_open)
        return service

    async def _open_engine(self) -> Engine:
        engine = Engine(
            self._settings,
            self._limits,
            self._clock,
            self._ids,
            self._disk,
            self.supervisor,
            self.health,
            self._writers,
            self._partition_id,
        )
        return await engine.open()

    @property
    def app(self) -> Application:
        """The application of the current engine."""
        return self.engine.app

    @property
    def feed(self) -> Feed:
        """The feed that sends events to search."""
        return self.engine.feed

    @property
    def keys(self) -> Keys:
        """The API keys."""
        return self.engine.access.keys

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the current engine."""
        return self.engine.app(request)

    def _objects(self) -> int:
        """Estimate how many objects a full garbage collection would visit."""
        streams, connections = self.engine.partition.active_streams, self.server.open_connections
        return _OBJECTS_OF_STREAM * streams + _OBJECTS_OF_CONNECTION * connections

    async def listen(self) -> None:
        """Accept connections on the configured address."""
        host, port = self._settings.host, self._settings.port
        require_guarded(host, keys=self.engine.access.keys.required, bootstrap=self._settings.api_key)
        try:
            await self.server.start(host, port)
        except OSError as error:
            raise SettingsError(problem=cannot_listen(host, port, error)) from error
        self.engine.access.offer_first_key(self.server.port)
        if self._settings.public_url and not self.engine.access.keys.required:
            logger.warning(
                "keys_required", public_url=self._settings.public_url, problem=str(KeysRequiredError())
            )
        logger.info("listening", host=host, port=self.server.port, data=str(self._settings.data))

    async def until_failed(self) -> Exception:
        """Wait until the server cannot continue, and return why; the process should exit."""
        return await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Refuse new requests, finish those in flight, and leave everything durable."""
        self.engine.app.operations.draining = True
        self.engine.drain()
        await self.server.shutdown(self._limits.shutdown_seconds_max)
        await self._keeper.stop()
        await self.engine.close()
        await self.supervisor.close()
        logger.info("stopped")

    # Recovery after a failed log --------------------------------------------------------

    async def _keep_open(self) -> None:
        """Reopen the engine whenever its log has failed; step down if another writer has the bucket."""
        loop = asyncio.get_running_loop()
        while True:
            opened_at = loop.time()
            await self.engine.partition.until_log_failed()
            if loop.time() - opened_at > self._limits.reopen_seconds_max:
                self._pause_seconds = self._limits.reopen_seconds
            lost = await self._until_it_can_work()
            if lost is not None:
                return await self._step_down(lost)
            await self.engine.abandon(self._settle)
            if not await self._reopen():
                return None
            self.health.reopenings += 1
            self.health.reopening_failure = None
            logger.info("log_opened_again", reopenings=self.health.reopenings)

    async def _until_it_can_work(self) -> DurableSessionsError | None:
        """Wait until disk and bucket seem to work; durable data stays readable meanwhile.

        Return the error that shows that another process has the log or the bucket: that is permanent.
        """
        while self.engine.partition.lost is None:
            await self._pause()
            try:
                await self.engine.probe()
                break
            except _HEALING as error:
                self._note(error)
        return self.engine.partition.lost

    async def _step_down(self, lost: DurableSessionsError) -> None:
        """Keep refusing requests for a while, so that clients and health checks notice the fence."""
        self.engine.drain()
        await asyncio.sleep(self._limits.step_down_seconds)
        self._failed.set_result(lost)

    async def _reopen(self) -> bool:
        """Open a new engine, with retries; return False if it can never be opened."""
        while True:
            try:
                self.engine = await self._open_engine()
                return True
            except Exception as error:
                if isinstance(error, _FINAL) or not isinstance(error, _HEALING):
                    logger.critical("log_cannot_be_opened_again", reason=str(error) or repr(error))
                    self._failed.set_result(error)
                    return False
                self._note(error)
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, self._limits.reopen_seconds_max)

    def _note(self, error: Exception) -> None:
        if self.health.reopening_failure is None:
            logger.warning("log_not_opened_again_yet", reason=str(error))
        self.health.reopening_failure = str(error)

    async def _settle(self) -> None:
        await self.server.settle(self._limits.clean_up_seconds_max)

    # Space ------------------------------------------------------------------------------

    def _space_changed(self, space: Space, mark: int, is_low: bool) -> None:
        self.health.disk_free_bytes, self.health.disk_low_bytes = space.free, mark
        self.health.low_space = f"only {space.free} bytes are free on the disk" if is_low else None
        self.engine.feed.pause(self.health.low_space)


class CurrentAdmission:
    """Admission by the keys of the current engine."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key."""
        return self._service.engine.app.admission.keys_required

    def holder(self, request: Request) -> str | None:
        """Return the holder that a request is counted for; this counts and refuses nothing."""
        return self._service.engine.app.admission.holder(request)

    def admit(self, request: Request) -> Admitted:
        """Return the holder of a request and how large its body may be, or raise the refusal."""
        return self._service.engine.app.admission.admit(request)
