"""A node of a cluster: it answers while it owns the log, and passes requests on to the owner otherwise.

The decisions are in ``cluster``; here are the loops that carry them out: telling and hearing heartbeats,
taking the log over, and giving it up.
"""

import asyncio
import hmac
import socket
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import structlog

from durable_sessions import __version__
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.cluster.members import SKEW_SECONDS_MAX, ClusterMembers
from durable_sessions.cluster.succession import Step, Succession
from durable_sessions.errors import (
    BucketError,
    DurableSessionsError,
    LinkDownError,
    LogError,
    LogFencedError,
    LogMisconfiguredError,
    LogRegressedError,
    SettingsError,
)
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.bodies.operations import Alive
from durable_sessions.http.carrier.message import AdmitAll, Admitted, Answer, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log import Claimant
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.shared import SharedLog, boottime
from durable_sessions.node.cluster_keys import derived, share_signing_keys
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.node.forwarder import Forwarder
from durable_sessions.node.link_address import TcpAddress
from durable_sessions.node.link_handshake import SECRET_BYTES_MIN
from durable_sessions.node.link_server import LinkServer
from durable_sessions.node.listen_policy import cannot_listen, is_loopback, require_guarded
from durable_sessions.node.node import ClusterPlace, Node
from durable_sessions.node.process_parts import SharedLogs
from durable_sessions.node.serving import Serving
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.settings import Settings

logger = structlog.get_logger(__name__)

BATCH_BYTES_MAX = 1024 * 1024
"""Small appends wait behind a batch of at most so many bytes."""
CHECK_SECONDS = 60.0
"""How often the configuration of the log is compared with what it must be."""
HAND_OVER_SECONDS_MAX = 20.0
_LOCK = "cluster"
_ALIVE = Response(200, [(b"Content-Type", b"application/json")], msgspec.json.encode(Alive("alive")))
_READY = b"/readyz"


class ClusterNode:
    """One process of a cluster. Of all nodes one at a time owns the log and answers; the others ask it."""

    def __init__(
        self, settings: Settings, limits: Limits, logs: ClusterLogs, ids: Ids, address: TcpAddress
    ) -> None:
        self._settings = settings
        self._limits = replace(limits, batch_bytes_max=min(limits.batch_bytes_max, BATCH_BYTES_MAX))
        self._logs = logs
        self._clock = SystemClock()
        self._id = ids.token("node_")
        self._address = address
        self._timing = logs.timing
        self._members = ClusterMembers(self._timing)
        self._succession = Succession(self._id, logs.description.lineage, self._timing, boottime())
        self._channel = logs.channel
        self._beats = 0
        secret = derived(settings.cluster_secret, "links")
        self._first_key_token = hmac.digest(secret, b"first key", "sha256").hex()
        self._forwarder = Forwarder(self._other_owner, lambda: self._serving, secret, limits)
        self._link_server = LinkServer(self._answer_link, secret, limits, refuse=ANSWER_FORMAT.refuse)
        self.server = HttpServer(
            self.handle, limits, admission=_ClusterAdmission(self, limits), answer_format=ANSWER_FORMAT
        )
        self.node: Node | None = None
        self._log: SharedLog | None = None
        self._serving: Serving | None = None
        self._taking: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._released_to = ""
        self._released_at = self._released_epoch = 0
        self._draining = False
        self._problem = ""
        self._resources = AsyncExitStack()

    @classmethod
    async def open(cls, settings: Settings, limits: Limits) -> "ClusterNode":
        """Return a node that knows its cluster, but neither listens nor tells others of itself."""
        _require_usable(settings)
        ids = RandomIds()
        async with AsyncExitStack() as opened:  # closes what was opened if a later step fails
            unlock = await asyncio.to_thread(REAL_DISK.claim, settings.data / _LOCK)
            opened.callback(unlock)
            logs = await ClusterLogs.open(settings, ids)
            opened.push_async_callback(logs.close)
            await share_signing_keys(logs.bucket, settings.cluster_secret, settings.data)
            node = cls(settings, limits, logs, ids, TcpAddress.parse(settings.link))
            node._resources = opened.pop_all()
        return node

    async def listen(self) -> None:
        """Take requests of clients and of other nodes, and tell these of this node."""
        settings = self._settings
        try:
            await self._link_server.listen(self._address)
            await self.server.start(settings.host, settings.port)
        except OSError as error:
            raise SettingsError(problem=cannot_listen(settings.host, settings.port, error)) from error
        await self._channel.open(self._hear)
        self._tasks = [
            asyncio.create_task(self._beat_forever(), name="heartbeats"),
            asyncio.create_task(self._check_forever(), name="log configuration"),
        ]
        said = replace(settings, port=self.server.port).address()
        logger.info("listening", **said, node=self.name, link=str(self._address))

    @property
    def name(self) -> str:
        """What people call this node."""
        return self._settings.node_name or f"{socket.gethostname()}:{self.server.port}"

    # Requests ---------------------------------------------------------------------------

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request of a client: here, if this node owns the log, else by the owner."""
        if request.path == b"/livez":
            return _ALIVE
        serving = self._serving
        if serving is None:
            return self._unready(request) or self._forwarder.forward(request)
        return self._forwarder.unless_moved(request, serving.answer(request))

    def _unready(self, request: Request) -> Answer | None:
        """Return that this node cannot pass anything on, to who asks whether it can."""
        if request.path != _READY or (self._other_owner() is not None and not self._draining):
            return None
        reason = "this node is stopping" if self._draining else self._problem or "no node owns the log now"
        body = msgspec.json.encode({"status": "not ready", "reason": reason})
        return Response(503, [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")], body)

    def _answer_link(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request that another node passes on."""
        if self._serving is None:
            error = LinkDownError(reason="this node does not own the log")
            return ANSWER_FORMAT.refuse(request.path, error, request.id)
        return self._serving.answer(request)

    def _other_owner(self) -> NodeHeartbeat | None:
        owner = self._members.owner(boottime())
        return None if owner is None or owner.node == self._id else owner

    # Heartbeats -------------------------------------------------------------------------

    def _beat(self) -> NodeHeartbeat:
        self._beats += 1
        owns = self._serving is not None and self.node is not None
        epoch = self.node.engine.partition.epoch if owns and self.node is not None else self._released_epoch
        tail = (self._log.ends_at or 0) if owns and self._log is not None else self._released_at
        return NodeHeartbeat(
            node=self._id,
            name=self.name,
            link=str(self._address),
            url=self._settings.public_url
            or str(replace(self._settings, port=self.server.port).address()["url"]),
            version=__version__,
            number=self._beats,
            wall_ms=self._clock.now_ms(),
            owns=owns,
            epoch=epoch,
            tail=tail,
            released_to=self._released_to,
            draining=self._draining,
        )

    def _hear(self, data: bytes) -> None:
        beat = NodeHeartbeat.decode(data)
        if beat is None or beat.node == self._id:
            return
        if self._members.hear(beat, boottime(), self._clock.now_ms()) and beat.released_to == self._id:
            self._consider()  # at once: nobody answers until the log is claimed

    async def _tell(self) -> None:
        beat = self._beat()
        self._members.hear(beat, boottime(), beat.wall_ms)
        await self._channel.send(self._id, beat.encode())

    async def _beat_forever(self) -> None:
        while True:
            try:
                await self._tell()
                await self._look_at_tail()
            except (DurableSessionsError, OSError, TimeoutError) as error:
                self._problem = str(error)
            self._consider()
            await asyncio.sleep(self._timing.beat)

    async def _look_at_tail(self) -> None:
        """Note where the log ends, while its owner is silent: when it was last seen to grow counts."""
        owner = self._members.owner(boottime())
        if self._taking is None and (owner is None or self._members.is_suspect(owner.node, boottime())):
            slots = await self._logs.slots(ONLY_PARTITION)
            self._succession.saw_tail(slots.last, boottime())

    def _consider(self) -> None:
        if self._taking is not None or self._draining:
            return
        skew = self._members.skew_seconds(self._id, boottime())
        if abs(skew) > SKEW_SECONDS_MAX:
            self._problem = f"the clock of this machine is {skew:.1f} seconds off that of the others"
        if self._succession.decide(self._members, boottime()) is Step.CLAIM:
            self._taking = asyncio.create_task(self._own(), name="ownership")

    # Owning -----------------------------------------------------------------------------

    async def _own(self) -> None:
        """Take the log over, answer until it is lost, and go back to passing on."""
        try:
            await self._take_over()
        except (DurableSessionsError, OSError) as error:
            self._problem = str(error)
            logger.warning("not_taken_over", reason=str(error) or repr(error))
        except Exception as error:
            self._problem = repr(error)
            logger.exception("not_taken_over")
        finally:
            self._succession.listen_again(boottime())
            self._taking = None

    async def _take_over(self) -> None:
        began = boottime()
        self._logs.heard = self._members.tail
        place = ClusterPlace(
            SharedLogs(self._open_log, Claimant(self._id, self.name)), self.server, self._first_key_token
        )
        node = await Node.open(self._settings, limits=self._limits, cluster=place)
        self.node = node
        failed = asyncio.ensure_future(node.until_failed())
        try:
            require_guarded(self._settings.host, keys=node.keys.required, bootstrap=self._settings.api_key)
            assert self._log is not None
            epoch, now = node.engine.partition.epoch, boottime()
            answers_at = self._succession.may_answer_at(epoch, now, self._members, now)
            await asyncio.wait((failed,), timeout=max(0.0, answers_at - now))
            if not failed.done():
                self._serving = Serving(node.handle, self._log, self._lost, boottime)
                self._problem, self._released_to = "", ""
                self._released_at = self._released_epoch = 0
                node.process.offer_first_key()
                await self._tell()
                logger.info("owns_log", node=self.name, epoch=epoch, seconds=round(boottime() - began, 3))
            error = await failed
            logger.warning("lost_log", node=self.name, epoch=epoch, reason=str(error))
        finally:
            failed.cancel()
            if not self._draining:
                self._serving = None
                await node.abandon()
                self.node = self._log = None

    async def _open_log(self, partition: PartitionId) -> SharedLog:
        self._log = await self._logs.log(partition)
        return self._log

    def _lost(self, error: LogError) -> None:
        """End the ownership: ``node.until_failed`` returns, and the engines are thrown away."""
        if self.node is None:
            return
        if isinstance(error, LogFencedError):
            self.node.engine.partition.step_down(error)
        else:
            self.node.engine.partition.log_failed(str(error))

    async def _check_forever(self) -> None:
        """Compare the configuration of the log now and then; one that can lose data ends the ownership."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._log is not None and self._serving is not None:
                try:
                    await self._log.require_safe()
                except (LogMisconfiguredError, LogRegressedError) as error:
                    logger.error("log_not_safe", reason=str(error))
                    self._lost(error)
                except LogError as error:
                    logger.warning("log_not_checked", reason=str(error))

    # Ending -----------------------------------------------------------------------------

    async def close(self) -> None:
        """Give the log to another node, finish the requests under way, and leave the cluster."""
        self._draining = True
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS_MAX):
                await self._hand_over()
        except (DurableSessionsError, OSError, TimeoutError) as error:
            logger.warning("not_handed_over", reason=str(error) or repr(error))
        await self.server.shutdown(self._limits.shutdown_seconds_max)
        ending = [*self._tasks, *([] if self._taking is None else [self._taking])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._link_server.close()
        await self._forwarder.close()
        await self._channel.close(self._id)
        await self._resources.aclose()
        logger.info("stopped")

    async def _hand_over(self) -> None:
        if self._taking is None:
            return await self._tell()
        node, log = self.node, self._log
        if node is None or log is None or self._serving is None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
            return await self._tell()
        await self._tell()
        try:
            # Most of it before the pause: what is flushed need not be flushed while nobody answers.
            await node.engine.flusher.flush_all()
        except BucketError as error:
            logger.warning("last_flush_failed", reason=str(error))
        successor = self._members.successor(self._logs.description.lineage, boottime(), without=self._id)
        epoch = node.engine.partition.epoch
        self._serving = None  # from here on requests wait for the next owner

        async def released() -> None:
            if successor is not None:
                await log.give_up(successor.node)
                self._released_to, self._released_epoch = successor.node, epoch
                self._released_at = log.ends_at or 0
            await self._tell()

        await node.hand_over(released)
        return None


class _ClusterAdmission:
    """Admission by the keys of this node, if it owns the log; else the owner decides."""

    def __init__(self, node: ClusterNode, limits: Limits) -> None:
        self._node = node
        self._all = AdmitAll(max(limits.append_body_bytes_max, limits.artifact_bytes_max))

    def _current(self) -> Node | None:
        return self._node.node

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key, as far as this node knows."""
        node = self._current()
        return False if node is None else node.app.admission.keys_required

    def holder(self, request: Request) -> str | None:
        """Return the holder that a request is counted for; this counts and refuses nothing."""
        node = self._current()
        return None if node is None else node.app.admission.holder(request)

    def admit(self, request: Request) -> Admitted:
        """Return the holder of a request and how large its body may be, or raise the refusal."""
        node = self._current()
        return self._all.admit(request) if node is None else node.app.admission.admit(request)


def _require_usable(settings: Settings) -> None:
    if len(settings.cluster_secret) < SECRET_BYTES_MIN:
        raise SettingsError(
            problem=f"A node of a cluster needs the secret that all nodes share, of {SECRET_BYTES_MIN}"
            " characters or more, in DURABLE_SESSIONS_CLUSTER_SECRET (openssl rand -hex 32 makes one)."
        )
    if settings.workers > 1:
        raise SettingsError(problem="A node of a cluster is one process: leave --workers at 1.")
    if not is_loopback(settings.host) and not settings.api_key:
        # Whether there are keys is known only to the owner, and any node may become it.
        require_guarded(settings.host, keys=True, bootstrap=settings.api_key)
    if _is_file(settings.data):
        raise SettingsError(problem=f"data is {settings.data}, which is a file: name a directory instead.")


def _is_file(path: Path) -> bool:
    return path.exists() and not path.is_dir()
