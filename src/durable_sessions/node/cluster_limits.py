"""What the nodes of a cluster bound more tightly than a server of its own: what others wait for.

The next owner of a partition replays what its last owner has not flushed, and clients wait for that. It is
also what is lost if the log loses all of its disks.
"""

from dataclasses import replace

from durable_sessions.limits import MIB, Limits
from durable_sessions.settings import Settings

BATCH_BYTES_MAX = 1 * MIB
"""Small appends wait behind a batch of at most this many bytes."""
FLUSH_BYTES_MAX = 8 * MIB
FLUSH_EFFECTS_MAX = 40_000
FLUSH_SECONDS_MAX = 60.0
"""How much is flushed at a time, and how much or how long anything waits for that."""


def cluster_limits(limits: Limits) -> Limits:
    """Return the limits of a node of a cluster; smaller ones stay as they are."""
    return replace(
        limits,
        batch_bytes_max=min(limits.batch_bytes_max, BATCH_BYTES_MAX),
        flush_bytes_max=min(limits.flush_bytes_max, FLUSH_BYTES_MAX),
        flush_effects_max=min(limits.flush_effects_max, FLUSH_EFFECTS_MAX),
    )


def cluster_settings(settings: Settings) -> Settings:
    """Return the settings of a node of a cluster: something that waits is flushed in time."""
    return replace(settings, flush_seconds=min(settings.flush_seconds, FLUSH_SECONDS_MAX))
