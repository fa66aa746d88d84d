"""A node of a cluster leaves little for the next owner of its partitions to replay."""

from dataclasses import replace

from durable_sessions.limits import DEFAULT_LIMITS, MIB
from durable_sessions.node.cluster_limits import cluster_limits, cluster_settings
from durable_sessions.settings import Settings


def test_what_waits_for_a_flush_is_bounded_whatever_was_set() -> None:
    found = cluster_limits(replace(DEFAULT_LIMITS, flush_bytes_max=64 * MIB))
    assert (found.flush_bytes_max, found.flush_effects_max) == (8 * MIB, 40_000)
    assert found.batch_bytes_max <= MIB
    assert cluster_settings(Settings(flush_seconds=3_600)).flush_seconds == 60


def test_what_is_smaller_stays() -> None:
    small = replace(DEFAULT_LIMITS, flush_bytes_max=1_000, flush_effects_max=10, batch_bytes_max=500)
    assert cluster_limits(small) == small
    assert cluster_settings(Settings(flush_seconds=0.5)).flush_seconds == 0.5
