"""The engine: composes log, bucket, partition, subscriptions, search, and the application."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack

from durable_sessions.bucket.cluster_description import require_no_cluster
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import PartitionStoppedError
from durable_sessions.http.api.artifact_owner import FOLDER as ARTIFACTS
from durable_sessions.http.api.artifact_owner import ArtifactOwner
from durable_sessions.http.api.artifact_sweep import ArtifactSweep
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.health import EngineHealth
from durable_sessions.http.api.memory_owner import MemoryOwner
from durable_sessions.http.api.neighbours import Ask, Neighbours
from durable_sessions.http.api.sessions.foreign_events import ForeignEvents
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.tail_exchange import TailExchange
from durable_sessions.http.api.usage_exchange import UsageExchange
from durable_sessions.http.api.web_page import WebPage
from durable_sessions.http.api.webhook_urls import Reach
from durable_sessions.http.api.webhooks import WebhookSender
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.log import MeasuredLog
from durable_sessions.log.file import FileLog
from durable_sessions.log.generations import LOG_NAME
from durable_sessions.log.probe import probe as probe_disk
from durable_sessions.node.access import Access
from durable_sessions.node.api import Api, Foundation
from durable_sessions.node.partition_files import (
    ARTIFACT_NAMES_NAME,
    CATALOG_NAME,
    ORIGINAL_TIMES_MARK,
    SEARCH_NAME,
    VIEWS_NAME,
)
from durable_sessions.node.placement_gate import PlacementGate
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.partition_id import SYSTEM, PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.sessions.memory.records import FOLDER as MEMORY
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.times_backfill import TimesBackfill
from durable_sessions.sessions.views_cleaning import ViewsCleaning
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage import file_permissions
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.outbox_delivery import Deliver, OutboxDelivery
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.quotas import Quotas
from durable_sessions.storage.retention import Retention
from durable_sessions.storage.subscriptions import SubscriptionManager
from durable_sessions.storage.wakeups import Wakeups
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.placed_names import PlacedNames
from durable_sessions.streams.stream import SYSTEM_WORKSPACE
from durable_sessions.tier.artifact_names import ArtifactNames
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.bucket_tier import BucketTier
from durable_sessions.tier.maintenance import Maintenance
from durable_sessions.tier.ownership import require_own


class Engine:
    """Everything that depends on one opened log; discarded as a whole when that log fails.

    ``writers`` are the names under which this process has written to the bucket; a new one is added.
    ``partition`` is the partition of the log. Its files are in a directory of their own, except the first's.
    ``deliver`` gives the system partition what any other one owes to it; ``ask`` asks any partition.
    """

    def __init__(
        self,
        process: ProcessParts,
        health: EngineHealth,
        writers: set[str],
        partition: PartitionId,
        deliver: Deliver,
        ask: Ask,
    ) -> None:
        self._process = process
        self._neighbours = Neighbours(partition, ask)
        self._deliver = deliver
        self._settings = process.settings
        self._limits = process.limits
        self._clock = process.clock
        self._ids = process.ids
        self._supervisor = process.supervisor
        self._health = health
        self._disk = process.disk
        self._writers = writers
        self._keys = process.keys
        self.partition_id = partition
        self._directory = partition.directory(process.settings.data)
        self._is_closed = False
        self._epoch: int | None = None

    async def open(self) -> "Engine":
        """Replay the log and start the background tasks; on return it can answer requests."""
        async with AsyncExitStack() as opened:  # closes what was opened if a later step fails
            await self._open(opened)
            self._start()
            opened.pop_all()
        return self

    async def _open(self, opened: AsyncExitStack) -> None:
        settings, limits = self._settings, self._limits
        self.log = await self._open_log()
        opened.push_async_callback(self.log.close)
        await asyncio.to_thread(file_permissions.tighten, settings.data)
        await self._open_bucket()
        opened.push_async_callback(self.archive.close)
        quotas = Quotas(settings.workspace_streams, settings.workspace_bytes)
        names = PlacedNames(self.partition_id, limits) if self.partition_id.of > 1 else None
        self.partition = await Partition.open(
            self.log,
            self._clock,
            limits,
            self.archive,
            Retention(settings.retention),
            quotas,
            placed=names,
            epoch=self._epoch,
        )
        self._gate = None if names is None else PlacementGate(self.partition, names)
        opened.push_async_callback(self.partition.close)
        self.access = await Access.open(self.partition, self._process, is_system=self.partition_id.is_system)
        quotas.refused = self.access.audit.quota_refused
        if self.partition_id.is_system:
            self._process.offer_first_key()
        await self._open_parts(quotas)

    async def _open_log(self) -> MeasuredLog:
        """Open the log: in the data directory, or where other machines reach it too."""
        if self._process.logs is not None:
            await asyncio.to_thread(self._directory.mkdir, mode=0o700, parents=True, exist_ok=True)
            return await self._process.logs.open(self.partition_id)
        return await FileLog.open(
            self._directory / LOG_NAME,
            segment_bytes_max=self._limits.log_segment_bytes_max,
            disk=self._disk,
        )

    async def _open_parts(self, quotas: Quotas) -> None:
        """Put together what stands on the partition; only ``_start`` lets it work."""
        settings, limits, clock = self._settings, self._limits, self._clock
        artifacts = await self._open_artifacts(quotas)
        artifact_owner = ArtifactOwner(artifacts, self._neighbours)
        self._usage = UsageExchange(quotas, self._neighbours, limits)
        self._has_quotas = quotas.bounded
        self.flusher = Flusher(self.partition, clock, limits, settings.flush_seconds)
        self.maintenance = Maintenance(self.archive, clock, limits)
        lineage = f"{settings.bucket} {self.log.lineage}"
        self.feed = Feed(self.partition, clock, self._directory / SEARCH_NAME, lineage, limits)
        elsewhere = ForeignEvents(self._neighbours).find if self.partition_id.of > 1 else None
        self._memory = MemoryOwner(Scopes(self.partition, limits), self._neighbours, limits)
        self._outbox = OutboxDelivery(self.partition, self._deliver_owed, limits)
        self._memory.outbox = self._outbox
        self._views = ViewsFile(self._directory / VIEWS_NAME, limits.views_bytes_max)
        sessions = Sessions(
            self.partition,
            clock,
            self._ids,
            limits,
            self.partition_id,
            artifact_owner.require,
            elsewhere,
            self._memory,
            self._views,
        )
        self._outlines = Outlines(sessions, self._views, limits)
        self._views_cleaning = ViewsCleaning(self.partition, self._views, sessions.scans.turns, limits)
        self._times = TimesBackfill(sessions, self._directory / ORIGINAL_TIMES_MARK)
        signing_keys = SigningKeys.open(settings.data / "signing-keys.json")
        self._webhooks = await asyncio.to_thread(
            WebhookSender, signing_keys, clock, limits, self._webhook_reach
        )
        wakeups = Wakeups(self.partition, clock, self._ids, limits, self._webhooks.deliver)
        self._tails = None
        if self.partition_id.of > 1:
            watcher = self._ids.token("watcher_")
            self._tails = TailExchange(self.partition, self._neighbours, watcher, limits)
        self._subscriptions = SubscriptionManager(self.partition, clock, limits, wakeups, self._tails)
        if self._tails is not None:
            self._tails.manager = self._subscriptions
        foundation = Foundation(
            process=self._process,
            partition_name=self.partition_id.digits,
            health=self._health,
            log=self.log,
            partition=self.partition,
            bucket=BucketTier(self.archive, self.flusher, self.maintenance),
            artifacts=artifacts,
            artifact_owner=artifact_owner,
            artifact_sweep=self.artifact_sweep,
            access=self.access,
            sessions=sessions,
            memory=self._memory,
            outlines=self._outlines,
            feed=self.feed,
            subscriptions=self._subscriptions,
            webhooks=self._webhooks,
            webhook_reach=self._webhook_reach,
            signing_keys=signing_keys,
            neighbours=self._neighbours,
            tails=self._tails,
            usage=self._usage,
        )
        web_page = await asyncio.to_thread(WebPage, settings.public_url, self._process.entrance)
        documentation = await asyncio.to_thread(Documentation, limits, settings.public_url, web_page)
        self._api = Api(foundation, documentation)
        self.app = self._api.app

    async def _open_artifacts(self, quotas: Quotas) -> Artifacts:
        """Return the artifacts, counted if a quota bounds them, and set up what removes unnamed ones."""
        grace_seconds = self._limits.artifact_grace_seconds
        artifacts = Artifacts(self.archive.bucket, self.partition.tip, quotas, self._clock, grace_seconds)
        self.artifact_names = ArtifactNames(self._directory / ARTIFACT_NAMES_NAME, self.archive)
        self.artifact_sweep = ArtifactSweep(
            artifacts,
            self._named_artifacts,
            self._neighbours,
            self._limits,
            is_held=Retention(self._settings.retention).holds_all("sessions/"),
        )
        if quotas.bytes_bounded:
            await artifacts.count(lambda workspace: self._neighbours.is_home(workspace, ARTIFACTS))
        return artifacts

    async def _named_artifacts(self, workspace: str, digests: Collection[str]) -> set[str]:
        """Return which artifacts this partition names: whatever was decided before it was asked counts."""
        await self.partition.settled()
        await self.flusher.flush_all()
        return await self.artifact_names.named(workspace, digests)

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request of a router; if it is about a name that lives elsewhere, say where."""
        redirected = None if self._gate is None else self._gate.redirect(request)
        return self.app.answer_router(request) if redirected is None else redirected

    def _webhook_reach(self) -> Reach:
        """Return which internal addresses webhooks may reach; without keys, all clients are local."""
        if self._settings.webhook_private_addresses:
            return Reach.PRIVATE
        return Reach.PUBLIC if self._keys.required else Reach.LOOPBACK

    async def _open_bucket(self) -> None:
        settings = self._settings
        bucket = await Bucket.open(settings.bucket or settings.data / "bucket")
        await require_own(self.log, bucket, self.partition_id)
        if self._process.logs is None:
            await require_no_cluster(bucket)
            await probe(bucket, self._ids)
        else:
            # Before the manifest: who cannot claim the log must not take the bucket from its owner.
            self._epoch = await self.log.claim(self._process.logs.claimant)
        await ensure_layout(bucket, PartitionLayout.of(self.partition_id))
        self.archive = await BucketArchive.open(
            bucket,
            self._directory / CATALOG_NAME,
            self._clock,
            self._ids,
            self._limits,
            names_of,
            index_of,
            log=self.log,
            writers=self._writers,
            partition=self.partition_id,
            flushing=self._process.flushing,
        )

    def _start(self) -> None:
        self._subscriptions.start(self._supervisor)
        self.feed.pause(self._process.health.low_space)
        if self.partition_id.number != SYSTEM:  # which has no sessions, so it needs no search process
            self.feed.start(self._supervisor)
        self.flusher.start(self._supervisor)
        self.maintenance.start(self._supervisor)
        self._sweeper = self._supervisor.start("expiry", self._sweep)
        self._backfilling = self._supervisor.start("original times", self._times.run)
        self._telling = self._supervisor.start("listeners", self.partition.reconcile_listeners)
        if self._tails is not None:
            self.partition.listen(self._tails.teller)
            self._telling_tails = self._supervisor.start("told tails", self._tails.teller.run)
            self._checking_watches = self._supervisor.start("watches", self._tails.check_watches)
            if self._has_quotas:
                self._hearing = self._supervisor.start("usage", self._usage.run)
        self._cleaning_views = self._supervisor.start("views", self._views_cleaning.run)
        self._removing_artifacts = self._supervisor.start("artifacts", self.artifact_sweep.run)
        self._delivering = self._supervisor.start("outbox", self._outbox.run)

    async def _deliver_owed(self, record: OwedRecord) -> None:
        if self._tails is None or record.target.workspace == SYSTEM_WORKSPACE:
            await self._deliver(record)
        elif record.target.folder == MEMORY:
            await self._memory.deliver(record)
        else:
            await self._tails.deliver_wake(record)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._limits.expiry_sweep_seconds)
            await self.partition.expire_in_steps()
            if self.log.trim_failure is not None:
                await self.log.trim(self.archive.flushed_through)

    async def probe(self) -> None:
        """Check that the disk can be written and the bucket answers; raise as opening would."""
        await asyncio.to_thread(
            probe_disk, self._disk, self._directory / LOG_NAME, self._limits.reopen_probe_bytes
        )
        await Manifests(self.archive.bucket, self.partition_id).newest()

    # Ending -----------------------------------------------------------------------------

    def drain(self) -> None:
        """End waiting readers; they reconnect with their offsets."""
        self._api.drain()
        self.partition.wake_readers()

    async def close(self) -> None:
        """Finish accepted work, flush if the bucket is available, and release everything."""
        if self.partition_id.is_system:
            self._process.first_key.withdraw()
        if not self._is_closed:
            self._is_closed = True
            await self._stop_background()
            await self._stop_services()
            await self.partition.close()
            await self.maintenance.close()
            await self.flusher.close()
            await self._close_files()

    async def hand_over(self, release: Callable[[], Awaitable[None]]) -> None:
        """Finish accepted work, give the log to another process with ``release``, and release the rest.

        Until then nobody answers for this partition. So only what must come before it does: nothing more is
        appended, and no manifest is under way. What is not flushed, the next owner finds in the log.
        """
        if self.partition_id.is_system:
            self._process.first_key.withdraw()
        self._is_closed = True
        await self._stop_background()
        async with self.archive.quiet():
            await self.maintenance.close()
            await self.flusher.stop()
        await self.partition.close()
        await release()
        await self._stop_services()
        await self._close_files()

    async def abandon(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Release everything after the log has failed; nothing is flushed, and nothing acknowledged is lost.

        Reads continue as long as possible. ``settle`` waits for requests that are being answered.
        """
        if self._is_closed:
            return
        await self._stop_background()
        await self._stop_services()
        # Wait for a manifest in flight: the next engine must not read its predecessor before it arrives.
        async with self.archive.quiet():
            await self.maintenance.close()
            await self.flusher.stop()
        self.app.closed = PartitionStoppedError(reason="it is being opened again")
        self.drain()
        await settle()
        self._is_closed = True
        await self.partition.close()
        await self._close_files()

    async def _close_files(self) -> None:
        await self.artifact_names.close()
        await self.archive.close()
        await asyncio.to_thread(self._views.close)
        await self.log.close()

    async def _stop_background(self) -> None:
        await self._sweeper.stop()
        await self._removing_artifacts.stop()
        await self._cleaning_views.stop()
        await self._backfilling.stop()
        await self._telling.stop()
        await self._delivering.stop()
        if self._tails is not None:
            await self._telling_tails.stop()
            await self._checking_watches.stop()
            if self._has_quotas:
                await self._hearing.stop()
        await self._subscriptions.close()

    async def _stop_services(self) -> None:
        await self._webhooks.close()
        await self.feed.close()
