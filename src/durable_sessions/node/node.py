"""The whole process: engines, the HTTP server in front of them, and the supervision of both."""

import asyncio
from collections.abc import Awaitable

import structlog

from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import Clock, SystemClock
from durable_sessions.errors import KeysRequiredError, SettingsError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.health import EngineHealth, Health
from durable_sessions.http.carrier.message import Admitted, Answer, Request
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.node.disk_space import DiskSpace, Space
from durable_sessions.node.engine import Engine
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.listen_policy import cannot_listen, require_guarded
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.settings import Settings

logger = structlog.get_logger(__name__)

_OBJECTS_OF_STREAM, _OBJECTS_OF_CONNECTION = 8, 40


class Node:
    """One process that serves one data directory."""

    server: HttpServer

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
        self._writers: set[str] = set()
        self._failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.keys = KeyTable(clock, settings.workspace)
        if settings.api_key:
            self.keys.bootstrap(settings.api_key)
        self.supervisor = Supervisor(clock, limits)
        self.health = Health()
        self.keeper = EngineKeeper(self._engine, limits, self._settle, self._failed.set_result)

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
    ) -> "Node":
        """Return a node that has replayed its log and can answer, but does not listen yet."""
        limits = limits or settings.limits()
        node = cls(settings, limits, clock or SystemClock(), ids or RandomIds(), disk, partition)
        await node.keeper.open()
        node.server = node.health.server = HttpServer(
            node.handle, limits, admission=CurrentAdmission(node), answer_format=ANSWER_FORMAT
        )
        space = DiskSpace(settings.data, settings.low_space_bytes, limits, node._space_changed)
        node.supervisor.start("disk space", space.run)
        node.supervisor.start("collector", lambda: COLLECTOR.run(node._objects))
        node.keeper.start(node.supervisor)
        return node

    def _engine(self, health: EngineHealth) -> Engine:
        return Engine(
            self._settings,
            self._limits,
            self._clock,
            self._ids,
            self._disk,
            self.supervisor,
            self.health,
            health,
            self._writers,
            self.keys,
            self._partition_id,
        )

    @property
    def engine(self) -> Engine:
        """The current engine."""
        return self.keeper.engine

    @property
    def app(self) -> Application:
        """The application of the current engine."""
        return self.keeper.engine.app

    @property
    def feed(self) -> Feed:
        """The feed that sends events to search."""
        return self.keeper.engine.feed

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the current engine."""
        return self.keeper.engine.app(request)

    def _objects(self) -> int:
        """Estimate how many objects a full garbage collection would visit."""
        streams, connections = self.engine.partition.active_streams, self.server.open_connections
        return _OBJECTS_OF_STREAM * streams + _OBJECTS_OF_CONNECTION * connections

    async def listen(self) -> None:
        """Accept connections on the configured address."""
        host, port = self._settings.host, self._settings.port
        require_guarded(host, keys=self.keys.required, bootstrap=self._settings.api_key)
        try:
            await self.server.start(host, port)
        except OSError as error:
            raise SettingsError(problem=cannot_listen(host, port, error)) from error
        self.engine.access.offer_first_key(self.server.port)
        if self._settings.public_url and not self.keys.required:
            logger.warning(
                "keys_required", public_url=self._settings.public_url, problem=str(KeysRequiredError())
            )
        logger.info("listening", host=host, port=self.server.port, data=str(self._settings.data))

    async def until_failed(self) -> Exception:
        """Wait until the server cannot continue, and return why; the process should exit."""
        return await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Refuse new requests, finish those in flight, and leave everything durable."""
        self.keeper.drain()
        await self.server.shutdown(self._limits.shutdown_seconds_max)
        await self.keeper.close()
        await self.supervisor.close()
        logger.info("stopped")

    async def _settle(self) -> None:
        await self.server.settle(self._limits.clean_up_seconds_max)

    def _space_changed(self, space: Space, mark: int, is_low: bool) -> None:
        self.health.disk_free_bytes, self.health.disk_low_bytes = space.free, mark
        self.health.low_space = f"only {space.free} bytes are free on the disk" if is_low else None
        self.engine.feed.pause(self.health.low_space)


class CurrentAdmission:
    """Admission by the keys of the current engine."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key."""
        return self._node.app.admission.keys_required

    def holder(self, request: Request) -> str | None:
        """Return the holder that a request is counted for; this counts and refuses nothing."""
        return self._node.app.admission.holder(request)

    def admit(self, request: Request) -> Admitted:
        """Return the holder of a request and how large its body may be, or raise the refusal."""
        return self._node.app.admission.admit(request)
