"""Metrics for Prometheus, collected from plain counters on request."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from durable_sessions.durations import buckets
from durable_sessions.http.api.artifact_sweep import ArtifactSweep
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.health import EngineHealth, Health
from durable_sessions.http.api.webhooks import WebhookSender
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.log import MeasuredLog
from durable_sessions.search.service import Search
from durable_sessions.storage.counts import PartitionCounts, SyncSeconds
from durable_sessions.storage.door import BucketControl, Streams
from durable_sessions.tasks import TaskSupervisor

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_PREFIX = "durable_sessions_"
OF_PROCESS = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        "connections_adopted",
        "connections_handed",
        "disk_free_bytes",
        "disk_low",
        "disk_low_bytes",
        "http_connections",
        "http_requests",
        "keys_proof_age_seconds",
        "link_forwarded",
        "task_restarts",
    )
)
"""Metrics of the whole process; of several engines in it, each tells the same."""


class Metrics(Collector):
    """Reads the counters of the parts it is given."""

    def __init__(
        self,
        streams: Streams,
        log: MeasuredLog,
        bucket: BucketControl,
        artifacts: ArtifactSweep,
        followers: Followers,
        webhooks: WebhookSender,
        auth: Authenticator,
        search: Search,
        supervisor: TaskSupervisor,
        health: Health,
        engine_health: EngineHealth,
    ) -> None:
        self._supervisor = supervisor
        self._health = health
        self._engine_health = engine_health
        self._streams = streams
        self._log = log
        self._bucket = bucket
        self._artifacts = artifacts
        self._followers = followers
        self._webhooks = webhooks
        self._auth = auth
        self._search = search
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield every metric with its current value."""
        counts = self._streams.counts()
        yield _counter("appends", "Appends made durable.", counts.appends)
        yield _counter(
            "records", "Records made durable: JSON messages, or appends of other types.", counts.records
        )
        yield _counter("append_bytes", "Payload bytes made durable.", counts.append_bytes)
        yield _counter("log_reads", "Reads that had to go to the log on disk.", counts.log_reads)
        yield _counter(
            "streams_expired", "Streams removed because their time was over.", counts.streams_expired
        )
        yield _counter("records_erased", "Records erased: events redacted or dropped.", counts.records_erased)
        yield from self._artifact_metrics()
        yield from self._log_metrics(counts)
        yield _gauge("streams", "Streams that exist, those kept only for forks included.", counts.streams)
        yield _gauge("memory_tier_bytes", "Memory taken by recent records.", counts.memory_bytes)
        yield _gauge("pending_bytes", "Bytes accepted but not yet durable.", counts.pending_bytes)
        yield _gauge("waiting_readers", "Long-poll and SSE readers that wait.", counts.waiting_readers)
        yield _gauge("sse_subscribers", "Connected SSE subscribers.", self._followers.subscribers)
        yield _gauge("subscriptions", "Subscriptions that exist.", counts.subscriptions)
        yield _gauge("subscription_bytes", "Memory taken by subscriptions.", counts.subscription_bytes)
        yield _gauge("outbox_bytes", "Records that other partitions are owed.", counts.outbox_bytes)
        yield _gauge(
            "document_bytes", "Documents and metadata of the streams in memory.", counts.document_bytes
        )
        yield _gauge(
            "partition_stopped",
            "1 after the log has failed and until it has been opened again.",
            counts.stopped,
        )
        yield _labelled(
            "task_restarts",
            "Restarts of background tasks that had failed, by task.",
            "task",
            self._supervisor.restarts,
        )
        yield _labelled(
            "listener_failures",
            "Durable changes that a derived thing failed to take in, by listener; it reconciles by itself.",
            "listener",
            counts.listener_failures,
        )
        yield from self._bucket_metrics(counts)
        yield from _searches(self._search)
        webhooks = self._webhooks
        yield _labelled(
            "webhooks",
            "Webhooks sent, by what the receiver made of them.",
            "outcome",
            {"accepted": webhooks.accepted, "failed": webhooks.failed},
        )
        yield _labelled(
            "requests_refused",
            "Requests that were not let in, by reason.",
            "reason",
            {"authentication": self._auth.unknown, "rate": self._auth.rate_limited},
        )
        reopenings = "Times that the log was opened again after it had failed."
        yield _counter("log_reopenings", reopenings, self._engine_health.reopenings)
        yield from _disk(self._health)
        forwarded = "Requests passed on to the worker that has what they ask for."
        yield _counter("link_forwarded", forwarded, self._health.forwarded())
        age = "Seconds since this worker's copy of the keys was confirmed; no value where the keys are kept."
        yield _gauge("keys_proof_age_seconds", age, self._health.keys_proof_age_seconds())
        if self._health.server is not None:
            yield from _http(self._health.server)

    def _artifact_metrics(self) -> Iterable[Metric]:
        yield _counter("artifacts_removed", "Artifacts removed that nothing named.", self._artifacts.removed)
        yield _counter(
            "artifact_sweeps",
            "Looks for artifacts that nothing names, finished ones.",
            self._artifacts.sweeps,
        )
        yield _counter(
            "artifact_sweep_failures",
            "Looks for artifacts that nothing names that failed, so that nothing more was removed.",
            self._artifacts.failures,
        )

    def _log_metrics(self, partition: PartitionCounts) -> Iterable[Metric]:
        yield _counter(
            "log_written_bytes", "Bytes written to the log, framing included.", self._log.bytes_written
        )
        yield _counter("log_syncs", "Syncs of the log.", self._log.syncs)
        yield _counter(
            "log_trim_failures",
            "Files of the log that could not be removed after their flush; it is tried again.",
            self._log.trim_failures,
        )
        yield _histogram(
            "commit_seconds",
            "Time from the start of a batch's write to its durability.",
            partition.sync_seconds,
        )
        yield _gauge("log_bytes", "Size of the log on disk.", self._log.segment_bytes)
        yield _gauge("log_segments", "Segment files of the log.", self._log.segment_count)

    def _bucket_metrics(self, partition: PartitionCounts) -> Iterable[Metric]:
        bucket = self._bucket.counts()
        yield _counter("flushes", "Flushes to the bucket.", bucket.flushes)
        yield _counter("merges", "Merges of segments.", bucket.merges)
        yield _counter("objects_removed", "Objects removed from the bucket.", bucket.objects_removed)
        written = "Snapshots of the catalog written to the bucket."
        yield _counter("catalog_snapshots", written, bucket.snapshots)
        failed = "Snapshots of the catalog that could not be written; it is tried again, and nothing is lost."
        yield _counter("catalog_snapshot_failures", failed, bucket.snapshot_failures)
        age = "Age of the newest snapshot of the catalog; no value if there is none."
        yield _gauge("catalog_snapshot_age_seconds", age, bucket.snapshot_age_seconds)
        yield _counter("bucket_reads", "Reads that went to the bucket.", partition.bucket_reads)
        yield _counter("block_cache_hits", "Parts of segments found in memory.", bucket.cache_hits)
        yield _counter(
            "block_cache_misses", "Parts of segments fetched from the bucket.", bucket.cache_misses
        )
        under_way = "Memory for reads from the bucket that are under way."
        yield _gauge("cold_read_bytes", under_way, bucket.cold_read_bytes)
        waiting = "Reads from the bucket that wait for their turn."
        yield _gauge("cold_reads_waiting", waiting, bucket.cold_reads_waiting)
        yield _gauge("block_cache_bytes", "Memory taken by parts of segments.", bucket.cache_bytes)
        yield _gauge("unflushed_bytes", "Bytes in the log that wait for a flush.", partition.unflushed_bytes)
        yield _gauge("segments", "Event segments in the bucket.", bucket.segments)
        yield _gauge("segment_bytes", "Size of the event segments.", bucket.segment_bytes)
        yield _gauge("active_streams", "Streams in memory.", partition.active_streams)
        yield _gauge("bucket_failing", "1 while the bucket takes no flush.", bucket.flush_failing)
        failing = "1 while merging and removing do not work."
        yield _gauge("maintenance_failing", failing, bucket.maintenance_failing)


def _searches(search: Search) -> Iterable[Metric]:
    feed = search.feed
    yield _counter("searches", "Searches.", search.searches)
    yield _counter("search_process_starts", "Starts of the process that searches.", feed.starts)
    killed = "Search processes that did not answer, or did not get on, and were killed."
    yield _counter("search_process_kills", killed, feed.kills)
    yield _gauge("searches_under_way", "Searches that somebody waits for.", search.admission.under_way)
    yield _counter(
        "searches_refused", "Searches refused because too many were under way.", search.admission.refused
    )
    yield _gauge("search_backlog_sessions", "Sessions with events that search was not told of.", feed.backlog)
    yield _gauge("search_building", "1 while the search index lacks older events.", feed.is_building)
    yield _gauge("search_events_lacking", "Older events that the search index lacks.", feed.events_left)
    yield _gauge("search_failing", "1 while events cannot be indexed.", feed.failure is not None)


def _disk(health: Health) -> Iterable[Metric]:
    yield _gauge("disk_free_bytes", "Space left on the disk of the log.", health.disk_free_bytes or 0)
    yield _gauge("disk_low_bytes", "Below which space left search stops.", health.disk_low_bytes or 0)
    yield _gauge("disk_low", "1 while little space is left and search is paused.", bool(health.low_space))


def _http(server: HttpServer) -> Iterable[Metric]:
    yield _labelled("http_requests", "Requests answered.", "status_class", server.requests_by_class())
    yield _gauge("http_connections", "Open connections.", server.open_connections)
    handed = "Connections given to the worker that has what they ask for."
    yield _counter("connections_handed", handed, server.handed_over_total)
    adopted = "Connections taken over from other workers."
    yield _counter("connections_adopted", adopted, server.adopted_total)


def _labelled(name: str, text: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{_PREFIX}{name}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"{_PREFIX}{name}", text, value)


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}{name}", text, value)


def _histogram(name: str, text: str, durations: SyncSeconds) -> HistogramMetricFamily:
    found = list(buckets(durations.bounds, durations.counts))
    return HistogramMetricFamily(f"{_PREFIX}{name}", text, found, durations.sum_seconds)
