"""The whole server, put together: log, partition, subscriptions, application, carrier."""

import asyncio

import structlog

from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import Clock, SystemClock
from durable_sessions.errors import SettingsError
from durable_sessions.http.app import Application
from durable_sessions.http.cursor import Cursors
from durable_sessions.http.metrics import Metrics
from durable_sessions.http.operations import Operations
from durable_sessions.http.pace import Pace
from durable_sessions.http.reads import Reads
from durable_sessions.http.server import HttpServer
from durable_sessions.http.signing import Keyring
from durable_sessions.http.sse import EventSource
from durable_sessions.http.streams import StreamsFace
from durable_sessions.http.subscriptions import SubscriptionRoutes
from durable_sessions.http.webhooks import WebhookSender
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.log.file import FileLog
from durable_sessions.settings import Settings
from durable_sessions.storage.bucket_archive import BucketArchive
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.maintenance import Maintenance
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import Retention
from durable_sessions.storage.subscriptions import SubscriptionManager

logger = structlog.get_logger(__name__)


class Service:
    """One process that serves one data directory."""

    def __init__(self, settings: Settings, limits: Limits, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        self._limits = limits
        self._clock = clock
        self._ids = ids

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        disk: Disk = REAL_DISK,
    ) -> "Service":
        """Return a service that has replayed its log and can answer, but does not listen yet."""
        service = cls(settings, limits or settings.limits(), clock or SystemClock(), ids or RandomIds())
        await service._open(disk)
        return service

    async def _open(self, disk: Disk) -> None:
        settings, limits = self._settings, self._limits
        settings.data.mkdir(parents=True, exist_ok=True)
        self.log = await FileLog.open(
            settings.data / "log", segment_bytes_max=limits.log_segment_bytes_max, disk=disk
        )
        try:
            keyring = Keyring.open(settings.data / "keys.json")
            await self._open_bucket()
            self.partition = await Partition.open(
                self.log, self._clock, limits, self.archive, Retention(settings.retention)
            )
        except BaseException:
            await self.log.close()
            raise
        self.flusher = Flusher(self.partition, self._clock, limits, settings.flush_seconds)
        self.maintenance = Maintenance(self.archive, self._clock, limits)
        cursors = Cursors(self._clock, self._ids)
        pace = Pace(limits.turn_bytes_max)
        self._events = EventSource(self.partition, cursors, limits, pace)
        self._webhooks = WebhookSender(keyring, self._clock, limits)
        self._subscriptions = SubscriptionManager(
            self.partition, self._clock, self._ids, limits, self._webhooks.deliver
        )
        metrics = Metrics(
            self.partition,
            self.log,
            self.archive,
            self.flusher,
            self.maintenance,
            self._events,
            self._webhooks,
        )
        reads = Reads(self.partition, self._events, cursors, limits, pace, settings.long_poll_seconds)
        self.app = Application(
            Operations(self.partition, self.archive, self.flusher, metrics),
            StreamsFace(self.partition, reads, limits, settings.public_url),
            SubscriptionRoutes(self._subscriptions, keyring, self._clock, limits),
            settings.public_url,
        )
        self.server = metrics.server = HttpServer(self.app, limits)
        self._subscriptions.start()
        self.flusher.start()
        self.maintenance.start()
        self._sweeper = asyncio.create_task(self._sweep(), name="expiry")

    async def _open_bucket(self) -> None:
        settings = self._settings
        bucket = await Bucket.open(settings.bucket or settings.data / "bucket")
        await probe(bucket, self._ids)
        await ensure_format(bucket)
        self.archive = await BucketArchive.open(
            bucket, settings.data / "catalog.sqlite", self._clock, self._ids, self._limits
        )

    async def listen(self) -> None:
        """Accept connections on the configured address."""
        host, port = self._settings.host, self._settings.port
        try:
            await self.server.start(host, port)
        except OSError as error:
            raise SettingsError(problem=f"Cannot listen on {host} port {port}: {error}") from error
        logger.info("listening", host=host, port=self.server.port, data=str(self._settings.data))

    async def close(self) -> None:
        """Refuse new work, finish what is in flight, and leave everything durable."""
        self.app.operations.draining = self._events.draining = True
        self.partition.published.wake_all()
        await self.server.shutdown(self._limits.shutdown_seconds_max)
        self._sweeper.cancel()
        await self._subscriptions.close()
        await self._webhooks.close()
        await self.partition.close()
        await self.maintenance.close()
        await self.flusher.close()
        await self.archive.close()
        await self.log.close()
        logger.info("stopped")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._limits.expiry_sweep_seconds)
            self.partition.expire()
