"""A node of a cluster: it answers for the partitions that it owns, and asks their owners for all others.

The decisions are in ``cluster``; here are the loops that carry them out: telling and hearing heartbeats,
taking partitions over, and giving them up.
"""

import asyncio
import hmac
import socket
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import structlog

from durable_sessions import __version__
from durable_sessions.access.key_table import KeyTable
from durable_sessions.bucket.cluster_description import LEVEL
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.bucket.probe import probe
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.assignments import Assignments
from durable_sessions.cluster.heartbeat import NodeHeartbeat, PartitionBeat
from durable_sessions.cluster.members import SKEW_SECONDS_MAX, ClusterMembers
from durable_sessions.cluster.placement import NO_PLACEMENT, ClusterPlacement, Placements
from durable_sessions.cluster.succession import Step, Succession
from durable_sessions.errors import (
    BucketError,
    DurableSessionsError,
    LinkDownError,
    LogFencedError,
    LogMisconfiguredError,
    LogRegressedError,
    SettingsError,
)
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.http.api.health import Health
from durable_sessions.http.api.sessions.page_tokens import PageTokens
from durable_sessions.http.carrier.message import (
    AdmitAll,
    Admitted,
    Answer,
    Handler,
    Request,
)
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.http.ui.addresses import kept_base
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log import Claimant, MeasuredLog
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.shared import boottime
from durable_sessions.node.catalog_shadows import CatalogShadows
from durable_sessions.node.cluster_keys import share_signing_keys
from durable_sessions.node.cluster_limits import cluster_limits, cluster_settings
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.node.cluster_operations import ClusterOperations
from durable_sessions.node.cluster_partitions import ENTRANCE, ClusterPartitions
from durable_sessions.node.cluster_secrets import ClusterSecrets
from durable_sessions.node.disk_space import DiskSpace, Space
from durable_sessions.node.former_partitions import FormerPartitions
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.hand_overs import HandOvers
from durable_sessions.node.heartbeat_relay import BEATS, HeartbeatRelay
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import TcpAddress, link_address
from durable_sessions.node.link_server import LinkServer
from durable_sessions.node.listen_policy import cannot_listen, is_loopback, require_guarded
from durable_sessions.node.local_appends import LocalAppends
from durable_sessions.node.merged_operations import MergedOperations
from durable_sessions.node.owned_partition import OwnedPartition
from durable_sessions.node.partition_files import remove_other_generations
from durable_sessions.node.partitions import answered
from durable_sessions.node.preparation import prepare
from durable_sessions.node.process_parts import Entrance, ProcessParts, SharedLogs
from durable_sessions.node.rate_exchange import RATES, RateExchange
from durable_sessions.node.router import Router
from durable_sessions.node.serving import Serving
from durable_sessions.node.shared_settings import differing, fingerprint
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.node.system_calls import SystemLink
from durable_sessions.node.system_keys import SystemKeys
from durable_sessions.node.worker_id import ONLY_WORKER
from durable_sessions.partition_id import SYSTEM, PartitionId
from durable_sessions.settings import Settings
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.tier.flush_process import FlushProcess

logger = structlog.get_logger(__name__)

CHECK_SECONDS = 60.0
"""How often the configuration of the logs is compared with what it must be."""
PLACEMENT_SECONDS = 5.0
"""How often the operator's wishes are read, unless another node is heard to have newer ones."""
_LOCK = "cluster"
_OBJECTS_OF_STREAM, _OBJECTS_OF_CONNECTION = 8, 40


class ClusterNode:
    """One process of a cluster, and the partitions that it owns."""

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        logs: ClusterLogs,
        layout: PartitionLayout,
        ids: Ids,
        address: TcpAddress,
        secrets: ClusterSecrets,
    ) -> None:
        self._settings = settings = cluster_settings(settings)
        self._logs = logs
        self._layout = layout
        self.partitions = {one.number: one for one in layout.all}
        self._redirects = settings.routing == "redirect"
        self._clock = SystemClock()
        self.id = ids.token("node_")
        self._address = address
        self.timing = logs.timing
        self.members = ClusterMembers(self.timing)
        self._successions = {
            number: Succession(self.id, number, self.timing, boottime()) for number in self.partitions
        }
        self._channel = logs.channel
        self._beats = 0
        self._placements = Placements(logs.bucket)
        self.placement: ClusterPlacement = NO_PLACEMENT
        self._secrets = secrets.keys("links")
        self._tokens = PageTokens(secrets.keys("cursors"))
        self._fingerprint = fingerprint(settings, secrets.keys("settings"))
        self._process = self._parts(cluster_limits(limits).divided(1, layout.partitions), ids)
        limits = self._limits = self._process.limits
        self.owned: dict[int, OwnedPartition] = {}
        self._taking: dict[int, asyncio.Task[None]] = {}
        self.released: dict[int, PartitionBeat] = {}
        self.asked = ClusterPartitions(self, self._secrets, limits, address.tls)
        self._link_server = LinkServer(self._answer_link, self._secrets, limits, refuse=ANSWER_FORMAT.refuse)
        self.server = HttpServer(
            self.handle,
            limits,
            admission=_ClusterAdmission(self, limits),
            answer_format=ANSWER_FORMAT,
            # An append that the log has taken was decided by its owner: it needs no proof.
            fast_path=LocalAppends(layout.partitions, lambda: self.front, self._local),
            base=kept_base(settings.public_url),
        )
        self._process.health.server = self.server
        self._process.health.forwarded = lambda: self.asked.forwarded
        self._process.entrance.handle = self.handle
        self._system = SystemLink(_SystemAsker(self.asked))
        self.keys = SystemKeys(self._process, self._system, self.id)
        self._links: list[NodeLink] = []
        self._rates = RateExchange(self._process.keys, lambda: self._links, self.id, limits)
        self._relay = HeartbeatRelay(self.members, lambda: self._links, self._hear, self.timing)
        self.shadows = CatalogShadows(logs.bucket, settings.data, limits)
        self._former = FormerPartitions(
            settings.data,
            layout.all,
            limits,
            self._clock,
            lambda number: number in self.owned or number in self._taking,
            lambda number: number in self.shadows,
        )
        self.operations = ClusterOperations(self)
        self._births = 0
        self._last_front: Application | None = None
        self._route = self._router()
        shared = [number for number in self.partitions if number != SYSTEM]
        light = [number for number in self.partitions if number == SYSTEM]
        self._assignments = Assignments(shared, light)
        self.assigned: dict[int, str] = {}
        self._names: tuple[str, ...] = ()
        self.names_since = self._awake_at = boottime()
        self.hand_overs = HandOvers(self)
        self._no_bucket = False
        self._tasks: list[asyncio.Task[None]] = []
        self.draining = False
        self._problems: dict[str, str] = {}
        self._resources = AsyncExitStack()

    @classmethod
    async def open(cls, settings: Settings, limits: Limits) -> "ClusterNode":
        """Return a node that knows its cluster, but neither listens nor tells others of itself."""
        _require_usable(settings)
        secrets = await asyncio.to_thread(ClusterSecrets.open, settings)
        address = await asyncio.to_thread(link_address, settings)
        ids = RandomIds()
        async with AsyncExitStack() as opened:  # closes what was opened if a later step fails
            unlock = await asyncio.to_thread(REAL_DISK.claim, settings.data / _LOCK)
            opened.callback(unlock)
            logs = await ClusterLogs.open(settings, ids)
            opened.push_async_callback(logs.close)
            await probe(logs.bucket, ids)  # once: no take-over waits for it
            await share_signing_keys(
                logs.bucket, secrets.keys("signing keys"), settings.data, logs.description.version
            )
            layout = await read_layout(logs.bucket)
            if layout is None:
                problem = f"The cluster {logs.description.name} is not made completely: run ds cluster init."
                raise SettingsError(problem=problem)
            await asyncio.to_thread(remove_other_generations, settings.data, layout.generation)
            node = cls(settings, limits, logs, layout, ids, address, secrets)
            node.placement = await node._placements.newest()
            await asyncio.to_thread(prepare, node._limits, settings.public_url)
            node._resources = opened.pop_all()
        return node

    def _parts(self, limits: Limits, ids: Ids) -> ProcessParts:
        settings, clock = self._settings, self._clock
        keys = KeyTable(clock, settings.workspace)
        if settings.api_key:
            keys.bootstrap(settings.api_key)
        token = hmac.digest(self._secrets[0], b"first key", "sha256").hex()
        return ProcessParts(
            settings,
            limits,
            clock,
            ids,
            REAL_DISK,
            Supervisor(clock, limits),
            Health(settings.node_name or settings.link, clock.now_ms()),
            keys,
            FirstKey(settings.data, token),
            Entrance(),
            FlushProcess(limits),
            SharedLogs(self._open_log, Claimant(self.id, settings.node_name)),
        )

    def _router(self) -> Handler | None:
        """Return what finds the partition of a request; None if there is only one."""
        if self._layout.partitions == 1:
            return None
        merged = MergedOperations(self.asked, ONLY_WORKER, self._layout.all[0], self._limits, self._tokens)
        every = {**merged.handlers, **self.operations.handlers}
        return Router(self._layout.partitions, self._birthplace, self.asked, every, self._limits)

    def _birthplace(self) -> int:
        """Return where a session without an id is created: here if possible, and everywhere in turn."""
        own = [number for number in self.owned if number != SYSTEM and self.serving(number) is not None]
        choices = own or range(self._layout.partitions)
        self._births += 1
        return choices[self._births % len(choices)]

    async def listen(self) -> None:
        """Take requests of clients and of other nodes, and tell these of this node."""
        settings, supervisor = self._settings, self._process.supervisor
        try:
            await self._link_server.listen(self._address)
            await self.server.start(settings.host, settings.port)
        except OSError as error:
            raise SettingsError(problem=cannot_listen(settings.host, settings.port, error)) from error
        space = DiskSpace(settings.data, settings.low_space_bytes, self._limits, self._space_changed)
        supervisor.start("disk space", space.run)
        supervisor.start("former partitions", self._former.run)
        supervisor.start("collector", lambda: COLLECTOR.run(self._objects))
        if self._route is not None:
            supervisor.start("rates", self._rates.run)
            self.keys.follow()
        await self._channel.open(self._hear_usual)
        self._awake_at = boottime()
        self._tasks = [
            asyncio.create_task(run(), name=name)
            for name, run in (
                ("heartbeats", self._beat_forever),
                ("pauses", self._watch_pauses_forever),
                ("succession", self._decide_forever),
                ("log configuration", self._check_forever),
                ("placement", self._read_placement_forever),
                ("shadows", self._shadow_forever),
                ("heartbeats over links", self._relay.run),
            )
        ]
        said = replace(settings, port=self.server.port).address()
        logger.info("listening", **said, node=self.name, link=str(self._address))

    @property
    def problem(self) -> str:
        """What keeps this node from owning what it should; empty if nothing does."""
        return next(iter(self._problems.values()), "")

    def note(self, source: str, problem: str = "") -> None:
        """Note what somebody has found out: a problem, or that there is none any more."""
        if problem:
            self._problems[source] = problem
        else:
            self._problems.pop(source, None)

    @property
    def name(self) -> str:
        """What people call this node."""
        return self._settings.node_name or f"{socket.gethostname()}:{self.server.port}"

    @property
    def url(self) -> str:
        """Where clients reach this node."""
        settings = self._settings
        return settings.public_url or str(replace(settings, port=self.server.port).address()["url"])

    # Requests ---------------------------------------------------------------------------

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request of a client, wherever its partition is."""
        request.may_redirect = self._redirects
        if self.operations.serves(request):
            return self.operations.answer(request)
        return self.enter(request) or self.asked.forward(ENTRANCE, request)

    def enter(self, request: Request) -> Answer | Awaitable[Answer] | None:
        """Answer a request as its entrance; None if this node owns nothing and so cannot."""
        if self.front is None:
            return None
        return self.asked.ask(0, request) if self._route is None else self._route(request)

    def _answer_link(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request that another node passes on."""
        if request.path == RATES:
            return self._rates.answer(request)
        if request.path == BEATS:
            return self._relay.answer()
        if partition == ENTRANCE:
            answer = self.enter(request)
            if answer is not None:
                return answer
        serving = self.serving(partition)
        if serving is None:
            error = LinkDownError(reason="this node does not own the partition")
            return ANSWER_FORMAT.refuse(request.path, error, request.id)
        return serving.answer(request)

    def serving(self, partition: int) -> Serving | None:
        """Return what answers for a partition that this node owns."""
        owned = self.owned.get(partition)
        return None if owned is None else owned.serving

    def _local(self, partition: int) -> Application | None:
        """Return the application of a partition that this node answers for."""
        owned = self.owned.get(partition)
        return None if owned is None or owned.serving is None else owned.engine.app

    def owner(self, partition: int) -> NodeHeartbeat | None:
        """Return which other node owns a partition, or for ``ENTRANCE``, any that owns one."""
        now = boottime()
        if partition == ENTRANCE:
            others = [beat for beat in self.members.live(now) if beat.owned and beat.node != self.id]
            return others[0] if others else None
        found = self.members.owner(partition, now)
        return None if found is None or found.beat.node == self.id else found.beat

    @property
    def front(self) -> Application | None:
        """The application of a partition of this node; None if it has none, or does not know the keys."""
        if self._route is not None and not self.keys.are_known:
            return None
        front = next((one.engine.app for one in self.owned.values() if one.serving is not None), None)
        self._last_front = front or self._last_front
        return front

    async def keys_proven(self) -> bool:
        """Say whether this node knows the keys as they are now, so that it can admit anybody."""
        keys = self._process.keys
        await keys.renew_proof()
        return not keys.is_unproven

    @property
    def app(self) -> Application:
        """The application of a partition of this node, for requests that any can answer."""
        # If all was given up while a request was under way, the last one still words its refusal.
        front = self.front or self._last_front
        assert front is not None, "only a node that can be an entrance routes requests"
        return front

    async def _ask(self, partition: int, request: Request) -> Answer:
        """Answer a question that one partition has for another."""
        return await answered(self.asked.ask(partition, request))

    async def _deliver(self, record: OwedRecord) -> None:
        """Give the system partition a record that another partition owes to it."""
        if self._route is None or self.serving(SYSTEM) is not None:
            await self._take(record)
        else:
            await self._system.deliver(record)

    async def _take(self, record: OwedRecord) -> None:
        """Take a record for the system partition, which this node owns."""
        system = self.owned.get(SYSTEM if self._route is not None else 0)
        if system is None:
            raise LinkDownError(reason="this node does not own the system partition")
        await system.engine.access.audit.take(record)

    # Heartbeats -------------------------------------------------------------------------

    def _beat(self) -> NodeHeartbeat:
        self._beats += 1
        return NodeHeartbeat(
            node=self.id,
            name=self.name,
            link=str(self._address),
            url=self.url,
            version=__version__,
            number=self._beats,
            wall_ms=self._clock.now_ms(),
            draining=self.draining,
            no_bucket=self._no_bucket,
            placement=self.placement.number,
            problem=self.problem,
            settings=self._fingerprint,
            level=LEVEL,
            partitions=tuple(
                self._partition_beat(number) for number in self.partitions if self._is_in_beat(number)
            ),
        )

    def _is_in_beat(self, number: int) -> bool:
        return self.serving(number) is not None or number in self.released or number in self.shadows

    def _partition_beat(self, number: int) -> PartitionBeat:
        owned = self.owned.get(number)
        if owned is not None and owned.serving is not None:
            return PartitionBeat(
                number,
                owns=True,
                epoch=owned.epoch,
                tail=owned.log.ends_at or 0,
                moving_to=owned.moving_to,
                catalog=owned.engine.archive.manifest.number,
            )
        released = self.released.get(number)
        return released or PartitionBeat(number, catalog=self.shadows.manifest(number))

    def _hear_usual(self, data: bytes) -> None:
        """Take a heartbeat that came on its usual way."""
        self._relay.heard()
        self._hear(data)

    def _hear(self, data: bytes) -> None:
        beat = NodeHeartbeat.decode(data)
        if beat is None or beat.node == self.id:
            return
        if self.members.hear(beat, boottime(), self._clock.now_ms()):
            for one in beat.partitions:
                if one.released_to == self.id and one.number in self.partitions:
                    self._consider(one.number)  # at once: nobody answers until the log is claimed
                if one.owns:
                    self.released.pop(one.number, None)
                    self._step_down(one, beat.name)
            self.asked.notify()

    def _step_down(self, claimed: PartitionBeat, by: str) -> None:
        """Give up what another node has claimed since: the log would say so, too, if it can be reached."""
        owned = self.owned.get(claimed.number)
        if owned is not None and owned.serving is not None and claimed.epoch > owned.epoch:
            owned.lost(LogFencedError(log=owned.log.location, problem=f"{by} has claimed it"))

    async def tell(self) -> None:
        """Tell the others how this node is now."""
        beat = self._beat()
        self.members.hear(beat, boottime(), beat.wall_ms)
        self.asked.notify()
        await self._channel.send(self.id, beat.encode())

    async def _beat_forever(self) -> None:
        while True:
            try:
                await self.tell()
                self.note("heartbeats")
            except (DurableSessionsError, OSError, TimeoutError) as error:
                self.note("heartbeats", str(error) or repr(error))
            cut_off = "no heartbeat comes, so that it asks the other nodes over their links who owns what"
            self.note("channel", cut_off if self._relay.is_cut_off else "")
            await asyncio.sleep(self.timing.beat)

    # Assignment -------------------------------------------------------------------------

    async def _decide_forever(self) -> None:
        while True:
            await asyncio.sleep(self.timing.beat)
            try:
                await self._assign()
                await self._look_at_tails()
                self.note("succession")
            except (DurableSessionsError, OSError, TimeoutError) as error:
                self.note("succession", str(error) or repr(error))
            skew = self.members.skew_seconds(self.id, boottime())
            is_wrong = abs(skew) > SKEW_SECONDS_MAX
            wrong = f"the clock of this machine is {skew:.1f} seconds off that of the others"
            self.note("clock", wrong if is_wrong else "")
            self._compare_settings()
            for number in self.by_weight():
                self._consider(number)
            self.hand_overs.balance()
            others = [beat.link for beat in self.members.live(boottime()) if beat.node != self.id]
            self._links = await self.asked.keep_links(others)

    def _compare_settings(self) -> None:
        """Say which settings differ: what is allowed must not depend on which node owns a partition."""
        live = self.members.live(boottime())
        others = {beat.name: differing(self._fingerprint, beat.settings) for beat in live}
        found = [f"{name} ({', '.join(names)})" for name, names in others.items() if names]
        self.note("settings", f"settings are not those of {', '.join(found)}" if found else "")

    def by_weight(self) -> list[int]:
        """Return the partitions in the order in which they are claimed: without keys nobody is admitted."""
        return sorted(self.partitions, key=lambda number: (number != SYSTEM, number))

    async def _assign(self) -> None:
        """Note who should own what."""
        eligible = self.members.eligible(boottime())
        names = tuple(sorted(eligible))
        if names != self._names:
            self._names, self.names_since = names, boottime()
        owners = await self._assignments.owners(names, self.placement.wishes)
        self.assigned = {number: eligible[name].node for number, name in owners.items()}

    async def heirs(self, partition: int) -> list[NodeHeartbeat]:
        """Return who could own a partition if this node did not, first the one who should."""
        eligible = self.members.eligible(boottime())
        others = {name: beat for name, beat in eligible.items() if beat.node != self.id}
        owners = await self._assignments.owners(tuple(sorted(others)), self.placement.wishes)
        return sorted(others.values(), key=lambda beat: (beat.name != owners[partition], beat.name))

    async def _look_at_tails(self) -> None:
        """Note where logs end whose owner is silent: when one was last seen to grow counts."""
        now = boottime()
        silent = []
        for number, partition in self.partitions.items():
            owner = self.members.owner(number, now)
            is_silent = owner is None or self.members.is_quiet(owner.beat.node, now)
            if is_silent and number not in self.owned and number not in self._taking:
                silent.append(partition)
        await asyncio.gather(*(self._look_at_tail(partition) for partition in silent))

    async def _look_at_tail(self, partition: PartitionId) -> None:
        slots = await self._logs.slots(partition)
        self._successions[partition.number].saw_tail(slots.last, boottime())

    def _consider(self, number: int) -> None:
        if self.draining or number in self._taking:
            return
        assigned = self.assigned.get(number)
        step = self._successions[number].decide(self.members, assigned, boottime())
        if step is Step.FOLLOW:
            self.note(f"partition {number}")  # whatever kept this node from taking it over
        if step is Step.CLAIM:
            self._taking[number] = asyncio.create_task(self._own(number), name="ownership")

    async def _watch_pauses_forever(self) -> None:
        """Listen anew after a pause of this process: others look dead that were only not heard meanwhile."""
        while True:
            await asyncio.sleep(self.timing.beat)
            now = boottime()
            if now - self._awake_at >= self.timing.suspect:
                for succession in self._successions.values():
                    succession.listen_again(now)
            self._awake_at = now

    async def _read_placement_forever(self) -> None:
        while True:
            await asyncio.sleep(self.timing.beat)
            newest = max((beat.placement for beat in self.members.live(boottime())), default=0)
            if newest <= self.placement.number:
                await asyncio.sleep(PLACEMENT_SECONDS)
            try:
                self.placement = await self._placements.newest()
                self._no_bucket = False
            except DurableSessionsError as error:
                self._no_bucket = isinstance(error, BucketError)
                logger.warning("placement_not_read", reason=str(error))

    # Owning -----------------------------------------------------------------------------

    async def _open_log(self, partition: PartitionId) -> MeasuredLog:
        number = partition.number
        return await self._logs.log(partition, self.members.tail(number), lambda: self._is_wanted(number))

    def _is_wanted(self, number: int) -> bool:
        """Say whether this node is still to claim a partition: that was decided some time ago."""
        now = boottime()
        if self.draining or now - self._awake_at >= self.timing.suspect:
            return False
        assigned = self.assigned.get(number)
        return self._successions[number].is_wanted(self.members, assigned, now)

    async def _own(self, number: int) -> None:
        """Take a partition over, answer for it until it is lost or given up."""
        try:
            await self._take_over(number)
        except (DurableSessionsError, OSError) as error:
            self._no_bucket |= isinstance(
                error, BucketError
            )  # others take it over, until this one reaches it
            self.note(f"partition {number}", str(error) or repr(error))
            logger.warning("not_taken_over", partition=number, reason=str(error) or repr(error))
        except Exception as error:
            self.note(f"partition {number}", repr(error))
            logger.exception("not_taken_over", partition=number)
        finally:
            self._successions[number].listen_again(boottime())
            self._taking.pop(number, None)

    async def _take_over(self, number: int) -> None:
        began, partition = boottime(), self.partitions[number]
        planned = self.members.released(number, began) is not None
        await self.shadows.finish(number)
        has_keys = self._route is not None and partition.is_system
        if has_keys:
            await self.keys.stop_following()
        owned = OwnedPartition(self._process, partition, self._deliver, self._ask, self._settle)
        try:
            await owned.open()
            self.owned[number] = owned
            if partition.is_system:
                keys = self._process.keys.required
                require_guarded(self._settings.host, keys=keys, bootstrap=self._settings.api_key)
            now = boottime()
            answers_at = self._successions[number].may_answer_at(owned.epoch, now, self.members, now)
            error = await owned.until_lost(max(0.0, answers_at - now))
            if error is None:
                owned.serve(self._answering(owned))
                self.note(f"partition {number}")
                self.released.pop(number, None)
                self.operations.took_over(boottime() - began, planned=planned)
                await self.tell()
                logger.info(
                    "owns_partition",
                    node=self.name,
                    partition=partition.digits,
                    epoch=owned.epoch,
                    seconds=round(boottime() - began, 3),
                )
                error = await owned.until_lost()
            if not owned.is_given_up:
                self.operations.fenced()
                logger.warning(
                    "lost_partition", node=self.name, partition=partition.digits, reason=str(error)
                )
        finally:
            if number in self.owned and not owned.is_given_up:
                await owned.abandon()
            self.owned.pop(number, None)
            if has_keys and not self.draining:
                self.keys.follow()

    def _answering(self, owned: OwnedPartition) -> Handler:
        # The only partition answers clients themselves; one of several answers routers, which may ask more.
        if self._route is None:
            self._process.offer_first_key()
            return owned.engine.app
        return self.keys.publish(owned, self._take) if owned.id.is_system else owned.engine.answer

    async def _settle(self) -> None:
        await self.server.settle(self._limits.clean_up_seconds_max)

    async def _check_forever(self) -> None:
        """Compare the configuration of the logs now and then; one that can lose data ends the ownership."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for owned in list(self.owned.values()):
                if owned.serving is None:
                    continue
                try:
                    await owned.tidy()
                    await owned.log.require_safe()
                except (LogMisconfiguredError, LogRegressedError) as error:
                    logger.error("log_not_safe", partition=owned.id.digits, reason=str(error))
                    owned.lost(error)
                except DurableSessionsError as error:
                    logger.warning("log_not_checked", partition=owned.id.digits, reason=str(error))

    # Shadows ----------------------------------------------------------------------------

    async def _shadow_forever(self) -> None:
        """Keep the catalogs ready of the partitions that this node would take over."""
        while True:
            await asyncio.sleep(self.timing.beat)
            try:
                await self.shadows.keep(await self._shadowed())
            except (DurableSessionsError, OSError) as error:
                logger.warning("shadow_not_advanced", reason=str(error))

    async def _shadowed(self) -> dict[PartitionId, int]:
        """Return the partitions to be ready for, and the manifests that their owners have told of."""
        now = boottime()
        found: dict[PartitionId, int] = {}
        names, wishes = tuple(sorted(self.members.eligible(now))), self.placement.wishes
        for number, partition in self.partitions.items():
            owner = self.members.owner(number, now)
            if owner is None or owner.beat.node == self.id or number in self._taking:
                continue
            inherited = await self._assignments.inherited(names, wishes, self.name, owner.beat.name)
            is_next = number in inherited or owner.partition.moving_to == self.id
            if is_next and not self.draining:
                found[partition] = owner.partition.catalog
        return found

    # Ending -----------------------------------------------------------------------------

    async def close(self) -> None:
        """Give all partitions to other nodes, finish the requests under way, and leave the cluster."""
        self.draining = True
        await self.hand_overs.all()
        await self.server.shutdown(self._limits.shutdown_seconds_max)
        await self.hand_overs.close()
        ending = [*self._tasks, *self._taking.values()]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._process.flushing.close()
        await self._process.supervisor.close()
        await self.shadows.close()
        await self._link_server.close()
        await self.asked.close()
        await self._channel.close(self.id)
        await self._resources.aclose()
        logger.info("stopped")

    # The process ------------------------------------------------------------------------

    def _objects(self) -> int:
        """Estimate how many objects a full garbage collection would visit."""
        streams = sum(one.engine.partition.active_streams for one in self.owned.values())
        return _OBJECTS_OF_STREAM * streams + _OBJECTS_OF_CONNECTION * self.server.open_connections

    def _space_changed(self, space: Space, mark: int, is_low: bool) -> None:
        health = self._process.health
        health.disk_free_bytes, health.disk_low_bytes = space.free, mark
        health.low_space = f"only {space.free} bytes are free on the disk" if is_low else None
        for owned in self.owned.values():
            owned.engine.feed.pause(health.low_space)


class _SystemAsker:
    """The way to the owner of the system partition, whichever node that is."""

    def __init__(self, partitions: ClusterPartitions) -> None:
        self._partitions = partitions

    def ask(self, partition: int, request: Request) -> Awaitable[Answer]:
        """Send a request to the owner of a partition."""
        return self._partitions.forward(partition, request)


class _ClusterAdmission:
    """Admission by the keys, if this node can be an entrance; else the node that is one decides."""

    def __init__(self, node: ClusterNode, limits: Limits) -> None:
        self._node = node
        self._all = AdmitAll(max(limits.append_body_bytes_max, limits.artifact_bytes_max))

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key, as far as this node knows."""
        front = self._node.front
        return False if front is None else front.admission.keys_required

    def holder(self, request: Request) -> str | None:
        """Return the holder that a request is counted for; this counts and refuses nothing."""
        front = self._node.front
        return None if front is None else front.admission.holder(request)

    def admit(self, request: Request) -> Admitted:
        """Return the holder of a request and how large its body may be, or raise the refusal."""
        front = self._node.front
        return self._all.admit(request) if front is None else front.admission.admit(request)


def _require_usable(settings: Settings) -> None:
    if settings.workers > 1:
        raise SettingsError(
            problem="A node of a cluster is one process: leave --workers at 1. To use more cores of a"
            " machine, start more nodes on it, each with --data, --port and --link of its own."
        )
    if settings.routing == "redirect" and not settings.public_url:
        problem = (
            "routing is redirect, so clients must be told where to go: set public_url to this node's URL."
        )
        raise SettingsError(problem=problem)
    if not is_loopback(settings.host) and not settings.api_key:
        # Whether there are keys is known only to the owner, and any node may become it.
        require_guarded(settings.host, keys=True, bootstrap=settings.api_key)
    if _is_file(settings.data):
        raise SettingsError(problem=f"data is {settings.data}, which is a file: name a directory instead.")


def _is_file(path: Path) -> bool:
    return path.exists() and not path.is_dir()
