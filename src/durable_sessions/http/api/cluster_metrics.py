"""The metrics that a node of a cluster has beside those of its partitions."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from durable_sessions.durations import Durations, buckets

_PREFIX = "durable_sessions_"


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """A partition that a node owns: its claim, how long ago it was proven, and what its log has done."""

    partition: str
    epoch: int
    proof_age_seconds: float
    frames_resolved: int
    publish_seconds: Durations


@dataclass(slots=True)
class ClusterFigures:
    """What a node has done since its start, and how it is now."""

    takeovers: dict[str, int] = field(default_factory=lambda: {"planned": 0, "dead": 0})
    takeover_seconds: float = 0.0
    handovers: int = 0
    handover_pause_seconds: float = 0.0
    fenced: int = 0
    held: int = 0
    clock_skew_seconds: float = 0.0
    owned: list[PartitionFigures] = field(default_factory=list)
    shadow_lag: dict[str, int] = field(default_factory=dict)


def cluster_metrics(figures: ClusterFigures) -> Iterable[Metric]:
    """Yield the metrics."""
    of_partition = (
        ("partition_owned", "Whether this node owns a partition: 1, or no value.", lambda one: 1.0),
        ("partition_epoch", "The position of the claim of the log.", lambda one: float(one.epoch)),
        (
            "proof_age_seconds",
            "Seconds since the frame was sent that last proved the ownership.",
            lambda one: one.proof_age_seconds,
        ),
    )
    for name, text, value in of_partition:
        family = GaugeMetricFamily(_PREFIX + name, text, labels=["partition"])
        for one in figures.owned:
            family.add_metric([one.partition], value(one))
        yield family
    resolved = CounterMetricFamily(
        _PREFIX + "frames_resolved", "Frames whose outcome had to be looked up.", labels=["partition"]
    )
    for one in figures.owned:
        resolved.add_metric([one.partition], one.frames_resolved)
    yield resolved
    published = HistogramMetricFamily(
        _PREFIX + "log_publish_seconds",
        "Time from the first send of a frame of the log until it was acknowledged.",
        labels=["partition"],
    )
    for one in figures.owned:
        found = list(buckets(one.publish_seconds.bounds, one.publish_seconds.counts))
        published.add_metric([one.partition], found, one.publish_seconds.sum_seconds)
    yield published
    takeovers = CounterMetricFamily(
        _PREFIX + "takeovers", "Partitions taken over, planned or after a death.", labels=["reason"]
    )
    for reason, count in figures.takeovers.items():
        takeovers.add_metric([reason], count)
    yield takeovers
    lag = GaugeMetricFamily(
        _PREFIX + "shadow_lag_manifests", "How far a catalog kept ready is behind.", labels=["partition"]
    )
    for partition, manifests in figures.shadow_lag.items():
        lag.add_metric([partition], manifests)
    yield lag
    for name, text, number in (
        ("takeover_seconds", "Seconds that the last take-over took.", figures.takeover_seconds),
        ("handover_pause_seconds", "Seconds of the last hand-over.", figures.handover_pause_seconds),
        ("requests_held", "Requests that wait for an owner.", float(figures.held)),
        ("clock_skew_seconds", "How far the clock is from that of the others.", figures.clock_skew_seconds),
    ):
        yield GaugeMetricFamily(_PREFIX + name, text, number)
    yield CounterMetricFamily(_PREFIX + "handovers", "Partitions given to other nodes.", figures.handovers)
    yield CounterMetricFamily(_PREFIX + "frames_fenced", "Partitions lost to another claim.", figures.fenced)
