"""The plan of a run, drawn from a seed: limits, faults, and how each process ends."""

import random
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.testing.simulation.bucket import Mishap, NetworkFaults

SLOTS_MAX = 5
"""How many slots a session may use in runs with sessions, so that the bound is met."""
End = Literal["power", "kill", "stop"]
"""The power fails, the process is killed, or it is asked to stop."""
Rival = Literal["new", "copy"]
"""A second server on the same bucket: with a new directory, or with a copy of the first one's."""
CatalogFate = Literal["kept", "deleted", "rubbish", "emptied", "older"]

POINTS = (
    "log.create",
    "log.write",
    "log.sync",
    "log.sync_directory",
    "log.unlink",
    "log.truncate",
    "bucket.create events",
    "bucket.create sessions",
    "bucket.create catalog",
    "bucket.create manifest",
    "bucket.delete events",
    "bucket.delete sessions",
    "bucket.delete manifest",
    "catalog.apply",
)
"""The fault points that change something; each is passed before and after."""


class Doom(NamedTuple):
    """When a process dies at the latest: after steps of its loop, or at a fault point."""

    step: int | None = None
    point: int | None = None
    name: tuple[str, int] | None = None


class DiskFault(NamedTuple):
    """An operation of the disk that fails, and how many of its kind work before it."""

    operation: str
    skip: int


class LifePlan(NamedTuple):
    """How long a process runs at most, how it ends, what fails meanwhile, and what becomes of the catalog."""

    seconds: float
    end: End
    doom: Doom
    catalog: CatalogFate
    disk_fault: DiskFault | None = None
    mishap: Mishap | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run: ``clients`` work through the ``lives``, while disk, network and clock misbehave."""

    limits: Limits
    lives: tuple[LifePlan, ...]
    clients: int
    pause_seconds: float
    flush_seconds: float
    partition: PartitionId
    disk_faults: float = 0.0
    network_faults: NetworkFaults = NetworkFaults()
    outages: bool = False
    clock_jumps: bool = False
    slow_disk: bool = False
    rival: Rival | None = None
    engines: bool = False
    """Whether there is an engine for each partition, instead of one for this partition alone."""
    workers: int = 0
    """How many workers share a few sessions, beside the clients."""
    sessions: bool = False
    """Whether the client is one of sessions, beside a model, and not one of streams."""

    @property
    def faultless(self) -> bool:
        """Whether nothing fails but the processes themselves, so that no read has a reason to."""
        faults = self.disk_faults or any(self.network_faults) or self.outages
        return not faults and not any(life.disk_fault or life.mishap for life in self.lives)


def plan(seed: int) -> RunPlan:
    """Return the run that a seed stands for."""
    draw = random.Random(f"{seed}/plan")
    calm = draw.random() < 0.25  # then nothing fails but the processes
    network = NetworkFaults()
    if not calm and draw.random() < 0.6:
        network = NetworkFaults(
            lost=draw.choice((0.0, 0.01, 0.1, 0.3)),
            late=draw.choice((0.0, 0.005, 0.02)),
            spoilt=draw.choice((0.0, 0.01, 0.05)),
            left_behind=draw.choice((0.0, 0.5)),
        )
    return RunPlan(
        limits=_limits(draw),
        lives=tuple(_life(draw, calm=calm) for _ in range(draw.randint(2, 5))),
        clients=draw.randint(2, 6),
        pause_seconds=draw.choice((0.02, 0.05, 0.2)),
        flush_seconds=draw.choice((0.2, 1.0, 5.0)),
        partition=ONLY_PARTITION,
        disk_faults=0.0 if calm else draw.choice((0.0, 0.0, 0.0, 0.003)),
        network_faults=network,
        outages=not calm and draw.random() < 0.3,
        clock_jumps=draw.random() < 0.4,
        slow_disk=draw.random() < 0.3,
    )


def engines_plan(seed: int) -> RunPlan:
    """Return the run of a seed with an engine for each of two partitions, and for the system partition."""
    lives = tuple(life._replace(mishap=None) for life in plan(seed).lives[:3])
    # What happens to the clock and to the bucket happens to all of them; the first one has it in its plan.
    return replace(
        plan(seed), lives=lives, clients=2, partition=PartitionId(0, of=2), engines=True, outages=False
    )


def work_plan(seed: int) -> RunPlan:
    """Return the run of a seed with workers that wake sessions, take them over, and are late."""
    draw = random.Random(f"{seed}/work")
    usual = plan(seed)
    # Long enough for leases to run out. Appends are small, so that bounds on bytes would not be met.
    lives = tuple(life._replace(seconds=2.0 * life.seconds) for life in usual.lives[:3])
    return replace(
        usual, lives=lives, clients=0, workers=draw.randint(2, 4), pause_seconds=draw.choice((0.05, 0.2))
    )


def sessions_plan(seed: int) -> RunPlan:
    """Return the run of a seed in which a client works on sessions."""
    usual = plan(seed)
    limits = replace(usual.limits, slots_per_session_max=SLOTS_MAX)
    return replace(usual, limits=limits, clients=0, sessions=True)


def rival_plan(seed: int) -> RunPlan:
    """Return the run of a seed with two servers on one bucket; nothing fails but the processes."""
    draw = random.Random(f"{seed}/rivals")
    long = draw.random() < 0.5  # then one of them has time to notice that it was overtaken

    def life() -> LifePlan:
        seconds = 10.0 + 10.0 * draw.random() if long else 0.5 + 5.0 * draw.random()
        doom = Doom() if long else _doom(draw)
        return LifePlan(
            seconds, draw.choice(("power", "kill", "stop")), doom, draw.choice(("kept", "deleted"))
        )

    return RunPlan(
        limits=_limits(draw),
        lives=tuple(life() for _ in range(draw.randint(2, 4))),
        clients=draw.randint(1, 3),
        pause_seconds=draw.choice((0.1, 0.2)),
        flush_seconds=draw.choice((0.2, 1.0, 3.0)),
        partition=ONLY_PARTITION,
        rival=draw.choice(("new", "copy")),
    )


def _limits(draw: random.Random) -> Limits:
    return replace(
        DEFAULT_LIMITS,
        memory_bytes_max=draw.choice((0, 2_000, 1 << 20)),
        block_cache_bytes_max=draw.choice((0, 20_000, 1 << 20)),
        log_segment_bytes_max=draw.choice((1, 500, 3_000)),
        batch_bytes_max=draw.choice((1, 400, 1 << 20)),
        pending_bytes_max=draw.choice((1_000, 1 << 20)),
        flush_bytes_max=draw.choice((200, 1_500, 6_000)),
        unflushed_bytes_max=draw.choice((8_000, 1 << 20)),
        active_streams_max=draw.choice((0, 2, 1_000)),
        era_seconds=draw.choice((0.5, 2.0)),
        maintenance_seconds=draw.choice((0.3, 1.0)),
        compaction_segments_min=draw.choice((2, 4)),
        checkpoints_max=draw.choice((2, 5)),
        checkpoint_rows_max=draw.choice((1, 3, 1_000)),
        manifests_kept_max=draw.choice((1, 3)),
        delete_within_seconds=draw.choice((4.0, 30.0)),
        garbage_grace_seconds=draw.choice((1.0, 4.0)),
        orphan_grace_seconds=draw.choice((2.0, 10.0)),
        sweep_seconds=draw.choice((2.0, 10.0)),
        snapshot_rows_min=1,
        snapshot_seconds=1.0,
        damaged_retry_seconds=5.0,
        flush_retry_seconds=0.5,
        expiry_sweep_seconds=1.0,
    )


def _life(draw: random.Random, *, calm: bool) -> LifePlan:
    return LifePlan(
        seconds=draw.choice((1.0, 3.0, 6.0, 12.0)) * (0.2 + 0.8 * draw.random()),
        end=draw.choice(("power", "power", "kill", "kill", "stop")),
        doom=_doom(draw),
        catalog=draw.choice(("kept", "kept", "kept", "deleted", "rubbish", "emptied", "older")),
        disk_fault=None if calm else _disk_fault(draw),
        mishap=None if calm else _mishap(draw),
    )


def _disk_fault(draw: random.Random) -> DiskFault | None:
    if draw.random() < 0.5:
        return None
    operation = draw.choice(
        ("create", "write", "sync", "sync", "sync", "unlink", "sync_directory", "read", "truncate")
    )
    return DiskFault(operation, draw.choice((1, 6, 20, 60)))


def _mishap(draw: random.Random) -> Mishap | None:
    if draw.random() < 0.4:
        return None
    calls = ("create manifest", "create manifest", "create manifest", "create events", "delete events")
    return Mishap(
        call=draw.choice(calls),
        left=draw.choice((1, 1, 2)),
        kind=draw.choice(("unanswered", "held", "orphaned")),
        seconds=draw.choice((1.0, 2.0, 4.0, 200.0)) * draw.random(),
    )


def _doom(draw: random.Random) -> Doom:
    kind = draw.randrange(5)
    if kind == 0:
        return Doom(step=draw.randint(1, draw.choice((1_000, 6_000))))
    if kind == 1:
        return Doom(point=draw.randint(1, draw.choice((200, 1_500))))
    if kind == 2:
        side = draw.choice(("before", "after"))
        return Doom(name=(f"{side} {draw.choice(POINTS)}", draw.randint(1, draw.choice((2, 10, 50)))))
    return Doom()
