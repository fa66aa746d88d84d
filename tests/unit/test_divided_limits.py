"""The limits of one of several workers: memory is divided, and every body still fits."""

from dataclasses import fields, replace

import pytest

from durable_sessions.limits import DEFAULT_LIMITS, Limits


def test_one_partition_has_all_of_it() -> None:
    assert DEFAULT_LIMITS.divided(1, 1) is DEFAULT_LIMITS


@pytest.mark.parametrize(("workers", "partitions"), [(1, 2), (2, 2), (2, 4), (8, 8), (100, 100)])
def test_parts_are_smaller_but_hold_the_largest_bodies(workers: int, partitions: int) -> None:
    part = DEFAULT_LIMITS.divided(workers, partitions)
    assert part.memory_bytes_max == DEFAULT_LIMITS.memory_bytes_max // partitions
    assert part.untaken_bytes_max == DEFAULT_LIMITS.untaken_bytes_max // workers
    for field in fields(Limits):
        assert 0 < getattr(part, field.name) <= getattr(DEFAULT_LIMITS, field.name)
    bodies = (part.pending_bytes_max, part.parsing_bytes_max, part.request_bytes_max)
    assert min(bodies) >= 4 * part.append_body_bytes_max
    artifacts = (part.artifact_memory_bytes_max, part.incomplete_artifact_bytes_max)
    assert min(artifacts) >= 2 * part.artifact_bytes_max
    assert part.connections_max == DEFAULT_LIMITS.connections_max, "they are counted, not kept in memory"


def test_a_limit_below_what_a_body_needs_is_not_raised() -> None:
    small = replace(DEFAULT_LIMITS, request_bytes_max=1000)
    assert small.divided(2, 2).request_bytes_max == 1000
