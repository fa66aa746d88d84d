"""The engine, put together: log, bucket, partition, subscriptions, search, and the application on top."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from durable_sessions.access.audit import Audit
from durable_sessions.access.keys import Keys
from durable_sessions.bucket.format import BucketFormat, ensure_format
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import Clock
from durable_sessions.errors import PartitionStoppedError
from durable_sessions.http.api.administration import Administration
from durable_sessions.http.api.admission import KeyAdmission
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.artifacts import ArtifactsFace
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.frame_budget import FrameBudget
from durable_sessions.http.api.health import Health
from durable_sessions.http.api.ingest import IngestFace
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.metrics import Metrics
from durable_sessions.http.api.operations import Operations
from durable_sessions.http.api.origin import OriginRules
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.http.api.reads import Reads
from durable_sessions.http.api.sessions.events import Events
from durable_sessions.http.api.sessions.registries import Registries
from durable_sessions.http.api.sessions.routes import SessionsFace
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.session_streams import SessionStreams
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.streams import StreamsFace
from durable_sessions.http.api.subscriptions import SubscriptionRoutes
from durable_sessions.http.api.webhook_urls import Reach
from durable_sessions.http.api.webhooks import WebhookSender
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.log.disk import Disk
from durable_sessions.log.file import FileLog
from durable_sessions.log.probe import probe as probe_disk
from durable_sessions.managed_agents.agents import AGENTS
from durable_sessions.managed_agents.environments import ENVIRONMENTS
from durable_sessions.managed_agents.object_kind import Kind
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.search.service import Search
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.times_backfill import TimesBackfill
from durable_sessions.settings import Settings
from durable_sessions.storage import file_permissions
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.quotas import Quotas
from durable_sessions.storage.retention import Retention
from durable_sessions.storage.subscriptions import SubscriptionManager
from durable_sessions.tasks import Supervisor
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.bucket_tier import BucketTier
from durable_sessions.tier.maintenance import Maintenance
from durable_sessions.tier.ownership import require_own

ORIGINAL_TIMES_MARK = "original-times"


class Engine:
    """Everything that stands on one opened log; thrown away as a whole when that log has failed.

    ``writers`` are the names under which this process has written to the bucket; the next one is added.
    ``partition`` is the one that the log is of; its files are in a directory of its own, but for the first's.
    """

    def __init__(
        self,
        settings: Settings,
        limits: Limits,
        clock: Clock,
        ids: Ids,
        disk: Disk,
        supervisor: Supervisor,
        health: Health,
        writers: set[str],
        partition: PartitionId = ONLY_PARTITION,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._clock = clock
        self._ids = ids
        self._supervisor = supervisor
        self._health = health
        self._disk = disk
        self._writers = writers
        self.partition_id = partition
        self._directory = partition.directory(settings.data)
        self._is_closed = False

    async def open(self) -> "Engine":
        """Replay the log and begin to work; on return it can answer."""
        async with AsyncExitStack() as opened:  # what was opened is closed again if anything fails
            await self._open(opened)
            self._start()
            opened.pop_all()
        return self

    async def _open(self, opened: AsyncExitStack) -> None:
        settings, limits = self._settings, self._limits
        self.log = await FileLog.open(
            self._directory / "log", segment_bytes_max=limits.log_segment_bytes_max, disk=self._disk
        )
        opened.push_async_callback(self.log.close)
        await asyncio.to_thread(file_permissions.tighten, settings.data)
        signing_keys = SigningKeys.open(settings.data / "signing-keys.json")
        await self._open_bucket()
        opened.push_async_callback(self.archive.close)
        quotas = Quotas(settings.workspace_streams, settings.workspace_bytes)
        self.partition = await Partition.open(
            self.log, self._clock, limits, self.archive, Retention(settings.retention), quotas
        )
        opened.push_async_callback(self.partition.close)
        artifacts = Artifacts(self.archive.bucket, self.partition.tip, quotas, self._clock)
        if quotas.bytes_bounded:
            await artifacts.count()
        auth, audit = await self._open_access(quotas)
        self.flusher = Flusher(self.partition, self._clock, limits, settings.flush_seconds)
        self.maintenance = Maintenance(self.archive, self._clock, limits)
        bucket = BucketTier(self.archive, self.flusher, self.maintenance)
        cursors = Cursors(self._clock, self._ids)
        throttle = ReadThrottle(limits.turn_bytes_max)
        frame_budget = FrameBudget(limits.sse_shared_bytes_max)
        self._stream_followers = Followers(self.partition, limits, throttle, frame_budget)
        self._webhooks = await asyncio.to_thread(
            WebhookSender, signing_keys, self._clock, limits, self._webhook_reach
        )
        self._subscriptions = SubscriptionManager(
            self.partition, self._clock, self._ids, limits, self._webhooks.deliver
        )
        search = self._open_search()
        self.metrics = Metrics(
            self.partition,
            self.log,
            bucket,
            self._stream_followers,
            self._webhooks,
            auth,
            search,
            self._supervisor,
            self._health,
        )
        readers = LiveReaders(limits)
        parser = BodyParser(limits)
        reads = Reads(
            self.partition,
            self._stream_followers,
            cursors,
            limits,
            throttle,
            readers,
            settings.long_poll_seconds,
        )
        sessions = Sessions(self.partition, self._clock, self._ids, limits)
        self._times = TimesBackfill(sessions, self._directory / ORIGINAL_TIMES_MARK)
        searches = Searches(sessions, search, limits)
        self._session_followers = Followers(self.partition, limits, throttle, frame_budget)
        subscriptions = SubscriptionRoutes(
            self._subscriptions, auth, signing_keys, self._clock, limits, self._webhook_reach, audit, parser
        )
        documentation = await asyncio.to_thread(Documentation, limits, settings.public_url)
        rules = OriginRules(
            hosts=(*settings.allowed_hosts, settings.host),
            origins=settings.allowed_origins,
            public_url=settings.public_url,
            is_page=documentation.serves,
            is_proven=self._first_key.is_proven,
        )
        self.app = Application(
            auth,
            Operations(
                self.partition,
                bucket,
                self.metrics,
                auth,
                self.keys,
                audit,
                self.feed,
                self._supervisor,
                self._health,
            ),
            Administration(self.keys, audit, self._first_key, self._clock, limits),
            StreamsFace(
                self.partition,
                SessionStreams(sessions, limits, parser),
                reads,
                auth,
                limits,
                settings.public_url,
                audit,
                parser,
            ),
            subscriptions,
            SessionsFace(
                sessions,
                Events(
                    sessions,
                    searches,
                    reads,
                    self._session_followers,
                    self._clock,
                    readers,
                    auth,
                    limits,
                    parser,
                ),
                searches,
                self._registries(sessions, audit),
                auth,
                self._ids,
                limits,
                audit,
                parser,
            ),
            ArtifactsFace(artifacts, limits, audit),
            IngestFace(sessions, artifacts, limits, parser),
            documentation,
            KeyAdmission(auth, rules, subscriptions, limits),
            rules,
            settings.public_url,
        )

    async def _open_access(self, quotas: Quotas) -> tuple[Authenticator, Audit]:
        settings, limits = self._settings, self._limits
        audit = Audit(self.partition, self._clock, limits)
        quotas.refused = audit.quota_refused
        self.keys = Keys(self.partition, audit, self._clock, self._ids, limits, settings.workspace)
        await self.keys.load()
        if settings.api_key:
            self.keys.bootstrap(settings.api_key)
        self._first_key = FirstKey(settings.data, self._ids)
        self.offer_first_key(None if self._health.server is None else self._health.server.port)
        return Authenticator(self.keys, self._clock, audit), audit

    def _webhook_reach(self) -> Reach:
        """Return how far inwards webhooks may go now; without keys, whoever asks is on this machine."""
        if self._settings.webhook_private_addresses:
            return Reach.PRIVATE
        return Reach.PUBLIC if self.keys.required else Reach.LOOPBACK

    def offer_first_key(self, port: int | None) -> None:
        """Let whoever can read the data directory make the first key, if there is none yet."""
        if self.keys.required:
            self._first_key.withdraw()
        else:
            self._first_key.offer(port)

    def _open_search(self) -> Search:
        lineage = f"{self._settings.bucket} {self.log.lineage}"
        self.feed = Feed(self.partition, self._clock, self._directory / "search", lineage, self._limits)
        return Search(self.partition, self.feed, self._clock, self._limits)

    def _registries(self, sessions: Sessions, audit: Audit) -> Registries:
        def registry(kind: Kind[Any]) -> Registry:
            turns = sessions.scans.turns
            return Registry(self.partition, self._clock, self._ids, self._limits, turns, kind)

        return Registries(registry(AGENTS), registry(ENVIRONMENTS), sessions.scans, audit)

    async def _open_bucket(self) -> None:
        settings = self._settings
        bucket = await Bucket.open(settings.bucket or settings.data / "bucket")
        await require_own(self.log, bucket, self.partition_id)
        await probe(bucket, self._ids)
        await ensure_format(bucket, BucketFormat(partitions=self.partition_id.of))
        self.archive = await BucketArchive.open(
            bucket,
            self._directory / "catalog.sqlite",
            self._clock,
            self._ids,
            self._limits,
            names_of,
            log=self.log,
            writers=self._writers,
            partition=self.partition_id,
        )

    def _start(self) -> None:
        self._subscriptions.start(self._supervisor)
        self.feed.pause(self._health.low_space)
        self.feed.start(self._supervisor)
        self.flusher.start(self._supervisor)
        self.maintenance.start(self._supervisor)
        self._sweeper = self._supervisor.start("expiry", self._sweep)
        self._backfilling = self._supervisor.start("original times", self._times.run)
        self._telling = self._supervisor.start("listeners", self.partition.reconcile_listeners)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._limits.expiry_sweep_seconds)
            await self.partition.expire_in_steps()
            if self.log.trim_failure is not None:
                await self.log.trim(self.archive.flushed_through)

    async def probe(self) -> None:
        """Find out whether the disk takes writes and the bucket answers; raises what an opening would."""
        await asyncio.to_thread(
            probe_disk, self._disk, self._directory / "log", self._limits.reopen_probe_bytes
        )
        await Manifests(self.archive.bucket, self.partition_id).newest()

    # Ending -----------------------------------------------------------------------------

    def drain(self) -> None:
        """Let waiting readers end; they come again with the offset that they have."""
        self._stream_followers.draining = self._session_followers.draining = True
        self.partition.wake_readers()

    async def close(self) -> None:
        """Finish what was accepted, flush what the bucket takes, and let go of everything."""
        self._first_key.withdraw()
        if not self._is_closed:
            self._is_closed = True
            await self._stop_background()
            await self.partition.close()
            await self.maintenance.close()
            await self.flusher.close()
            await self.archive.close()
            await self.log.close()

    async def abandon(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Let go of everything after the log has failed; nothing is flushed, and nothing is lost by that.

        Reads go on until the last moment. ``settle`` waits for requests that are being answered.
        """
        if self._is_closed:
            return
        await self._stop_background()
        # A manifest that is on its way must not arrive when the next engine has read the one before it.
        async with self.archive.chain.quiet():
            await self.maintenance.close()
            await self.flusher.stop()
        self.app.closed = PartitionStoppedError(reason="it is being opened again")
        self.drain()
        await settle()
        self._is_closed = True
        await self.partition.close()
        await self.archive.close()
        await self.log.close()

    async def _stop_background(self) -> None:
        await self._sweeper.stop()
        await self._backfilling.stop()
        await self._telling.stop()
        await self._subscriptions.close()
        await self._webhooks.close()
        await self.feed.close()
