"""The engine: composes log, bucket, partition, subscriptions, search, and the application."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from durable_sessions.bucket.format import BucketFormat, ensure_format
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import PartitionStoppedError
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.health import EngineHealth
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.webhook_urls import Reach
from durable_sessions.http.api.webhooks import WebhookSender
from durable_sessions.log.file import FileLog
from durable_sessions.log.probe import probe as probe_disk
from durable_sessions.node.access import Access
from durable_sessions.node.api import Api, Foundation
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.partition_id import PartitionId
from durable_sessions.search.feed import Feed
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.times_backfill import TimesBackfill
from durable_sessions.storage import file_permissions
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.outbox_delivery import Deliver, OutboxDelivery
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.quotas import Quotas
from durable_sessions.storage.retention import Retention
from durable_sessions.storage.subscriptions import SubscriptionManager
from durable_sessions.storage.wakeups import Wakeups
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.bucket_tier import BucketTier
from durable_sessions.tier.maintenance import Maintenance
from durable_sessions.tier.ownership import require_own

ORIGINAL_TIMES_MARK = "imports-known"


class Engine:
    """Everything that depends on one opened log; discarded as a whole when that log fails.

    ``writers`` are the names under which this process has written to the bucket; a new one is added.
    ``partition`` is the partition of the log. Its files are in a directory of their own, except the first's.
    ``deliver`` gives the system partition what any other one owes to it.
    """

    def __init__(
        self,
        process: ProcessParts,
        health: EngineHealth,
        writers: set[str],
        partition: PartitionId,
        deliver: Deliver,
    ) -> None:
        self._process = process
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

    async def open(self) -> "Engine":
        """Replay the log and start the background tasks; on return it can answer requests."""
        async with AsyncExitStack() as opened:  # closes what was opened if a later step fails
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
        await self._open_bucket()
        opened.push_async_callback(self.archive.close)
        quotas = Quotas(settings.workspace_streams, settings.workspace_bytes)
        self.partition = await Partition.open(
            self.log, self._clock, limits, self.archive, Retention(settings.retention), quotas
        )
        opened.push_async_callback(self.partition.close)
        self.access = await Access.open(self.partition, self._process, is_system=self.partition_id.is_system)
        quotas.refused = self.access.audit.quota_refused
        if self.partition_id.is_system:
            self._process.offer_first_key()
        await self._open_parts(quotas)

    async def _open_parts(self, quotas: Quotas) -> None:
        """Put together what stands on the partition; only ``_start`` lets it work."""
        settings, limits, clock = self._settings, self._limits, self._clock
        artifacts = Artifacts(self.archive.bucket, self.partition.tip, quotas, clock)
        if quotas.bytes_bounded:
            await artifacts.count()
        self.flusher = Flusher(self.partition, clock, limits, settings.flush_seconds)
        self.maintenance = Maintenance(self.archive, clock, limits)
        lineage = f"{settings.bucket} {self.log.lineage}"
        self.feed = Feed(self.partition, clock, self._directory / "search", lineage, limits)
        sessions = Sessions(self.partition, clock, self._ids, limits, self.partition_id)
        self._times = TimesBackfill(sessions, self._directory / ORIGINAL_TIMES_MARK)
        signing_keys = SigningKeys.open(settings.data / "signing-keys.json")
        self._webhooks = await asyncio.to_thread(
            WebhookSender, signing_keys, clock, limits, self._webhook_reach
        )
        wakeups = Wakeups(self.partition, clock, self._ids, limits, self._webhooks.deliver)
        self._subscriptions = SubscriptionManager(self.partition, clock, limits, wakeups)
        foundation = Foundation(
            process=self._process,
            health=self._health,
            log=self.log,
            partition=self.partition,
            bucket=BucketTier(self.archive, self.flusher, self.maintenance),
            artifacts=artifacts,
            access=self.access,
            sessions=sessions,
            feed=self.feed,
            subscriptions=self._subscriptions,
            webhooks=self._webhooks,
            webhook_reach=self._webhook_reach,
            signing_keys=signing_keys,
        )
        documentation = await asyncio.to_thread(Documentation, limits, settings.public_url)
        self._api = Api(foundation, documentation)
        self.app = self._api.app

    def _webhook_reach(self) -> Reach:
        """Return which internal addresses webhooks may reach; without keys, all clients are local."""
        if self._settings.webhook_private_addresses:
            return Reach.PRIVATE
        return Reach.PUBLIC if self._keys.required else Reach.LOOPBACK

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
        self.feed.pause(self._process.health.low_space)
        self.feed.start(self._supervisor)
        self.flusher.start(self._supervisor)
        self.maintenance.start(self._supervisor)
        self._sweeper = self._supervisor.start("expiry", self._sweep)
        self._backfilling = self._supervisor.start("original times", self._times.run)
        self._telling = self._supervisor.start("listeners", self.partition.reconcile_listeners)
        outbox = OutboxDelivery(self.partition, self._deliver, self._limits)
        self._delivering = self._supervisor.start("outbox", outbox.run)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._limits.expiry_sweep_seconds)
            await self.partition.expire_in_steps()
            if self.log.trim_failure is not None:
                await self.log.trim(self.archive.flushed_through)

    async def probe(self) -> None:
        """Check that the disk can be written and the bucket answers; raise as opening would."""
        await asyncio.to_thread(
            probe_disk, self._disk, self._directory / "log", self._limits.reopen_probe_bytes
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
            await self.partition.close()
            await self.maintenance.close()
            await self.flusher.close()
            await self.archive.close()
            await self.log.close()

    async def abandon(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Release everything after the log has failed; nothing is flushed, and nothing acknowledged is lost.

        Reads continue as long as possible. ``settle`` waits for requests that are being answered.
        """
        if self._is_closed:
            return
        await self._stop_background()
        # Wait for a manifest in flight: the next engine must not read its predecessor before it arrives.
        async with self.archive.quiet():
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
        await self._delivering.stop()
        await self._subscriptions.close()
        await self._webhooks.close()
        await self.feed.close()
