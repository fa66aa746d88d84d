"""The whole process: engines, the router and the HTTP server in front of them, and their supervision."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import structlog

from durable_sessions.access.key_table import KeyTable
from durable_sessions.bucket.partition_layout import PartitionLayout
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import Clock, SystemClock
from durable_sessions.errors import KeysRequiredError, LinkDownError, SettingsError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.http.api.health import EngineHealth, Health
from durable_sessions.http.carrier.message import Admitted, Answer, Handler, Request, Waiting
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.http.ui.addresses import kept_base
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.node.data_layout import data_layout
from durable_sessions.node.disk_space import DiskSpace, Space
from durable_sessions.node.engine import Engine
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.group_member import GroupMember
from durable_sessions.node.handover import HandOverSender
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_frames import PlainFrame
from durable_sessions.node.listen_policy import cannot_listen, require_guarded
from durable_sessions.node.local_appends import LocalAppends
from durable_sessions.node.merged_operations import MergedOperations
from durable_sessions.node.partition_files import remove_other_generations
from durable_sessions.node.partitions import answered
from durable_sessions.node.peers import Peers
from durable_sessions.node.process_parts import Entrance, ProcessParts
from durable_sessions.node.router import Router
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import ONLY_WORKER
from durable_sessions.partition_id import SYSTEM, PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.settings import Settings
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.tier.flush_process import FlushProcess

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
        self._worker = ONLY_WORKER if group is None else group.worker
        of, remote = partitions[0].of, self._pass_on if group is not None else None
        self._appends = LocalAppends(of, lambda: self.app, self._local, remote)
        self._member = (
            None
            if group is None
            else GroupMember(group, process, self._answer_link, self._appends, self._take)
        )
        self._failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.keepers = {partition.number: self._keeper(partition) for partition in partitions}
        self.keeper = next(iter(self.keepers.values()))
        self._peers = Peers(self._worker, self.keepers, *self._ties(), process.limits)
        self.supervisor, self.health, self.keys = process.supervisor, process.health, process.keys
        self.handle = self._handle_with_only if partitions[0].of == 1 else self._router(partitions[0])
        process.entrance.handle = self.handle

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
        worker = ONLY_WORKER if group is None else group.worker
        layout = await _layout(settings, partitions, worker.of)
        limits = (limits or settings.limits()).divided(worker.of, layout.partitions)
        clock, ids = clock or SystemClock(), ids or RandomIds()
        keys = KeyTable(clock, settings.workspace)
        if settings.api_key:
            keys.bootstrap(settings.api_key)
        token = ids.token("") + ids.token("") if group is None else group.first_key_token
        process = ProcessParts(
            settings,
            limits,
            clock,
            ids,
            disk,
            Supervisor(clock, limits),
            Health(str(worker.number), clock.now_ms()),
            keys,
            FirstKey(settings.data, token),
            Entrance(),
            FlushProcess(limits),
        )
        node = cls(process, group, worker.partitions(layout.partitions, layout.generation))
        # If one engine cannot be opened, those before it release their logs.
        async with AsyncExitStack() as opened:
            for keeper in node.keepers.values():
                await keeper.open()
                opened.push_async_callback(keeper.engine.close)
            if worker.owns(SYSTEM):
                await asyncio.to_thread(remove_other_generations, settings.data, layout.generation)
            opened.pop_all()
        node._start()
        return node

    def _start(self) -> None:
        process = self.process
        self.server = process.health.server = HttpServer(
            self.handle,
            process.limits,
            admission=CurrentAdmission(self),
            answer_format=ANSWER_FORMAT,
            fast_path=self._appends,
            base=kept_base(process.settings.public_url),
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
            return Engine(self.process, health, writers, partition, self._deliver, self._ask)

        return EngineKeeper(engine, self.process.limits, self._settle, self._fail)

    async def _deliver(self, record: OwedRecord) -> None:
        """Give the system partition a record that another partition owes to it."""
        if self._member is None or self._worker.owns(SYSTEM):
            await self._take(record)
        else:
            await self._member.deliver(record)

    async def _take(self, record: OwedRecord) -> None:
        """Take a record for the system partition, which this process has."""
        await self.keepers[SYSTEM].engine.access.audit.take(record)

    async def _ask(self, partition: int, request: Request) -> Answer:
        """Answer a question that one partition has for another."""
        keeper = self.keepers.get(partition)
        if keeper is not None and not keeper.is_open:
            reason = "it is being opened"
            return ANSWER_FORMAT.refuse(request.path, LinkDownError(reason=reason), request.id)
        return await answered(self._peers.ask(partition, request))

    def _ties(self) -> tuple[dict[int, NodeLink], dict[int, HandOverSender]]:
        """Return what leads to the other workers: links, and senders of connections."""
        member = self._member
        return ({}, {}) if member is None else (member.links, member.senders)

    def _router(self, own: PartitionId) -> Handler:
        limits = self.process.limits
        return Router(
            own.of,
            lambda: own.number,
            self._peers,
            MergedOperations(self._peers, self._worker, own, limits).handlers,
            limits,
        )

    def _answer_link(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request that another worker passes on."""
        keeper = self.keepers.get(partition)
        if keeper is None:
            reason = "this worker does not have that partition"
            return ANSWER_FORMAT.refuse(request.path, LinkDownError(reason=reason), request.id)
        return keeper.engine.answer(request)

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

    def _pass_on(self, sent: PlainFrame, waiting: Waiting) -> bool:
        """Pass a plain append on to the worker that has its partition."""
        return self._peers.pass_on(sent, waiting)

    def _local(self, partition: int) -> Application | None:
        """Return the application of a partition of this process."""
        keeper = self.keepers.get(partition)
        return None if keeper is None else keeper.engine.app

    def _objects(self) -> int:
        """Estimate how many objects a full garbage collection would visit."""
        streams = sum(keeper.engine.partition.active_streams for keeper in self.keepers.values())
        return _OBJECTS_OF_STREAM * streams + _OBJECTS_OF_CONNECTION * self.server.open_connections

    async def listen(self) -> None:
        """Accept links of other workers, and connections on the configured address."""
        settings = self.process.settings
        if self._member is not None:
            await self._member.listen(self.server)
        host, port = settings.host, settings.port
        require_guarded(host, keys=self.keys.required, bootstrap=settings.api_key)
        try:
            await self.server.start(host, port, shared_port=self._member is not None)
        except OSError as error:
            raise SettingsError(problem=cannot_listen(host, port, error)) from error
        if any(keeper.engine.partition_id.is_system for keeper in self.keepers.values()):
            self.process.offer_first_key()
        if settings.public_url and not self.keys.required:
            logger.warning("keys_required", public_url=settings.public_url, problem=str(KeysRequiredError()))
        said = replace(settings, port=self.server.port).address()
        # Of several workers the supervisor says it, once, when all of them do.
        logger.info("listening" if self._member is None else "worker_listening", **said)

    async def until_failed(self) -> Exception:
        """Wait until the server cannot continue, and return why; the process should exit."""
        return await asyncio.shield(self._failed)

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    async def close(self, drained: Callable[[], Awaitable[None]] | None = None) -> None:
        """Refuse new requests, finish those in flight, and leave everything durable.

        ``drained`` is called when all clients of this process were answered; until it returns, other workers
        are answered.
        """
        # Clients come first and other workers last: what a client of theirs has asked may still need a
        # partition of this process. Only then are the engines closed.
        for keeper in self.keepers.values():
            keeper.drain()
        await self.server.shutdown(self.process.limits.shutdown_seconds_max)
        if drained is not None:
            await drained()
        if self._member is not None:
            await self._member.close()
        await asyncio.gather(*(keeper.close() for keeper in self.keepers.values()))
        await self.process.flushing.close()
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


async def _layout(settings: Settings, wanted: int | None, workers: int) -> PartitionLayout:
    """Return how the bucket is divided, or will be if it is new; so many workers must be able to share it."""
    location = settings.bucket or settings.data / "bucket"
    # A directory that is not there is created by the engine, which checks the log first.
    is_new = "://" not in str(location) and not await asyncio.to_thread(Path(location).is_dir)
    bucket = None if is_new else await Bucket.open(location)
    layout = await data_layout(bucket, settings.data, wanted or workers)
    if layout.partitions % workers:
        raise SettingsError(problem=_uneven(settings.data, layout.partitions, workers))
    return layout if wanted is None else msgspec.structs.replace(layout, partitions=wanted)


def _uneven(data: Path, partitions: int, workers: int) -> str:
    """Return what to do about a number of workers that does not divide the number of partitions."""
    has = "1 partition" if partitions == 1 else f"{partitions} partitions"
    fitting = next(count for count in range(min(workers, partitions), 0, -1) if not partitions % count)
    return (
        f"The data in {data} has {has}, which {workers} workers cannot share evenly. Run ds repartition "
        f"--data {data} --partitions {workers} first, or start the server with --workers {fitting}."
    )
