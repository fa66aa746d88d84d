"""Limits under which a few records leave memory and reach the bucket."""

from dataclasses import replace

from durable_sessions.limits import DEFAULT_LIMITS

SMALL_TIERS = replace(
    DEFAULT_LIMITS,
    memory_bytes_max=20_000,
    flush_bytes_max=20_000,
    log_segment_bytes_max=50_000,
    active_streams_max=0,
)
