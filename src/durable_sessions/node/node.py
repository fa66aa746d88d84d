"""The whole process: engines, the router and the HTTP server in front of them, and their supervision."""

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from durable_sessions.access.key_table import KeyTable
from durable_sessions.bucket.format import read_format
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import Clock, SystemClock
from durable_sessions.errors import KeysRequiredError, LinkDownError, PartitionStoppedError, SettingsError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.http.api.health import EngineHealth, Health
from durable_sessions.http.carrier.message import Admitted, Answer, Handler, Request
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.node.disk_space import DiskSpace, Space
from durable_sessions.node.engine import Engine
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.link_server import LinkServer
from durable_sessions.node.listen_policy import cannot_listen, require_guarded
from durable_sessions.node.peers import Peers, close_links
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.node.router import Router
from durable_sessions.node.server_wide import ServerWide
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import ONLY_WORKER
from durable_sessions.partition_id import PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.settings import Settings
from durable_sessions.streams.outbox import OwedRecord

logger = structlog.get_logger(__name__)

_OBJECTS_OF_STREAM, _OBJECTS_OF_CONNECTION = 8, 40


class Node:
    """One process that serves a data directory, or with other workers a part of it.

    ``keepers`` has the partitions of this process by number. The first one answers what any can answer.
    ``group`` is None if this is the only worker.
    """

    server: HttpServer

    def __init__(
        self, process: ProcessParts, group: WorkerGroup | None, partitions: list[PartitionId]
    ) -> None:
        self.process = process
        self._group = group
        self._links = {} if group is None else group.links(process.limits)
        self._link_server = None if group is None else self._accept_links(group)
        self._failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.keepers = {partition.number: self._keeper(partition) for partition in partitions}
        self.keeper = next(iter(self.keepers.values()))
        self.supervisor, self.health, self.keys = process.supervisor, process.health, process.keys
        self.handle = self._handle_with_only if partitions[0].of == 1 else self._router(partitions[0])

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        disk: Disk = REAL_DISK,
        partitions: int | None = None,
        group: WorkerGroup | None = None,
    ) -> "Node":
        """Return a node that has replayed its logs and can answer, but does not listen yet.

        ``partitions`` is how many a new bucket gets; for any other it must be as many as it has, or None.
        """
        limits, clock = limits or settings.limits(), clock or SystemClock()
        keys = KeyTable(clock, settings.workspace)
        if settings.api_key:
            keys.bootstrap(settings.api_key)
        ids = ids or RandomIds()
        process = ProcessParts(
            settings,
            limits,
            clock,
            ids,
            disk,
            Supervisor(clock, limits),
            Health(),
            keys,
            FirstKey(settings.data, ids),
        )
        count = await _partition_count(settings, partitions)
        worker = ONLY_WORKER if group is None else group.worker
        node = cls(process, group, worker.partitions(count))
        async with AsyncExitStack() as opened:
            for keeper in node.keepers.values():
                await keeper.open()
                opened.push_async_callback(keeper.engine.close)
            opened.pop_all()
        node._start()
        return node

    def _start(self) -> None:
        process = self.process
        self.server = process.health.server = HttpServer(
            self.handle, process.limits, admission=CurrentAdmission(self), answer_format=ANSWER_FORMAT
        )
        space = DiskSpace(
            process.settings.data, process.settings.low_space_bytes, process.limits, self._space_changed
        )
        process.supervisor.start("disk space", space.run)
        process.supervisor.start("collector", lambda: COLLECTOR.run(self._objects))
        for keeper in self.keepers.values():
            keeper.start(process.supervisor)

    def _keeper(self, partition: PartitionId) -> EngineKeeper:
        writers: set[str] = set()

        def engine(health: EngineHealth) -> Engine:
            return Engine(self.process, health, writers, partition, self._deliver)

        return EngineKeeper(engine, self.process.limits, self._settle, self._fail)

    async def _deliver(self, record: OwedRecord) -> None:
        """Give the system partition a record that another partition owes to it."""
        for keeper in self.keepers.values():
            if keeper.engine.partition_id.is_system:
                return await keeper.engine.access.audit.take(record)
        raise PartitionStoppedError(reason="the system partition is in another process")

    def _router(self, own: PartitionId) -> Handler:
        worker, limits = ONLY_WORKER if self._group is None else self._group.worker, self.process.limits
        peers = Peers(worker, self.keepers, self._links, limits)
        return Router(own, peers, ServerWide(peers, worker, own, limits).handlers, limits)

    def _accept_links(self, group: WorkerGroup) -> LinkServer:
        return LinkServer(self._answer_link, group.secret, self.process.limits, refuse=ANSWER_FORMAT.refuse)

    def _answer_link(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request that another worker passes on."""
        keeper = self.keepers.get(partition)
        if keeper is None:
            reason = "this worker does not have that partition"
            return ANSWER_FORMAT.refuse(request.path, LinkDownError(reason=reason), request.id)
        return keeper.engine.app.answer_router(request)

    @property
    def engine(self) -> Engine:
        """The current engine of the first partition of this process."""
        return self.keeper.engine

    @property
    def app(self) -> Application:
        """The application of the current engine."""
        return self.keeper.engine.app

    @property
    def feed(self) -> Feed:
        """The feed that sends events to search."""
        return self.keeper.engine.feed

    def _handle_with_only(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the only engine: there is nothing to route."""
        return self.keeper.engine.app(request)

    def _objects(self) -> int:
        """Estimate how many objects a full garbage collection would visit."""
        streams = sum(keeper.engine.partition.active_streams for keeper in self.keepers.values())
        return _OBJECTS_OF_STREAM * streams + _OBJECTS_OF_CONNECTION * self.server.open_connections

    async def listen(self) -> None:
        """Accept links of other workers, and connections on the configured address."""
        settings = self.process.settings
        if self._group is not None and self._link_server is not None:
            await self._link_server.listen(self._group.address)
        host, port = settings.host, settings.port
        require_guarded(host, keys=self.keys.required, bootstrap=settings.api_key)
        try:
            await self.server.start(host, port, shared_port=self._group is not None)
        except OSError as error:
            raise SettingsError(problem=cannot_listen(host, port, error)) from error
        if any(keeper.engine.partition_id.is_system for keeper in self.keepers.values()):
            self.process.offer_first_key()
        if settings.public_url and not self.keys.required:
            logger.warning("keys_required", public_url=settings.public_url, problem=str(KeysRequiredError()))
        url = f"http://{f'[{host}]' if ':' in host else host}:{self.server.port}"
        logger.info(
            "listening",
            url=url,
            docs=f"{url}/docs",
            host=host,
            port=self.server.port,
            data=str(settings.data),
        )

    async def until_failed(self) -> Exception:
        """Wait until the server cannot continue, and return why; the process should exit."""
        return await asyncio.shield(self._failed)

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    async def close(self) -> None:
        """Refuse new requests, finish those in flight, and leave everything durable."""
        for keeper in self.keepers.values():
            keeper.drain()
        await self.server.shutdown(self.process.limits.shutdown_seconds_max)
        if self._link_server is not None:
            await self._link_server.close()
        await close_links(self._links)
        await asyncio.gather(*(keeper.close() for keeper in self.keepers.values()))
        await self.supervisor.close()
        logger.info("stopped")

    async def _settle(self) -> None:
        await self.server.settle(self.process.limits.clean_up_seconds_max)

    def _space_changed(self, space: Space, mark: int, is_low: bool) -> None:
        health = self.health
        health.disk_free_bytes, health.disk_low_bytes = space.free, mark
        health.low_space = f"only {space.free} bytes are free on the disk" if is_low else None
        for keeper in self.keepers.values():
            keeper.engine.feed.pause(health.low_space)


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


async def _partition_count(settings: Settings, wanted: int | None) -> int:
    """Return how many partitions the bucket has, or if it is new, gets."""
    if wanted is not None:
        return wanted
    location = settings.bucket or settings.data / "bucket"
    # A directory that is not there is created by the engine, which checks the log first.
    if "://" not in str(location) and not await asyncio.to_thread(Path(location).is_dir):
        return 1
    found = await read_format(await Bucket.open(location))
    return 1 if found is None else found.partitions
