"""The members of a cluster, as one node has heard of them."""

from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from durable_sessions.cluster.heartbeat import NodeHeartbeat, PartitionBeat, Timing

SKEW_SECONDS_MAX = 5.0
"""How far the wall clock of a node may be from the others': beyond it, TTLs would end early."""
MEMBERS_MAX = 1_000
"""How many nodes are kept; beyond it those that were silent for longest are forgotten."""


@dataclass(slots=True)
class _Heard:
    beat: NodeHeartbeat
    at: float
    ahead_seconds: float


class PartitionMember(NamedTuple):
    """What a node says of one partition."""

    beat: NodeHeartbeat
    partition: PartitionBeat


class ClusterMembers:
    """The last heartbeat of every node, the own one included, and when it was heard.

    ``now`` is always a monotonic clock that also counts while the machine sleeps, in seconds.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._heard: dict[str, _Heard] = {}
        self._tails: dict[int, int] = {}
        # By partition: the epoch that was given up, and when that was heard.
        self._released: dict[int, tuple[int, float]] = {}

    def hear(self, beat: NodeHeartbeat, now: float, wall_ms: int) -> bool:
        """Note a heartbeat; return False if it is an old one, which says nothing."""
        before = self._heard.get(beat.node)
        # In a bucket the last heartbeat of each node is read again and again; only a new one says that it
        # lives.
        if before is not None and beat.number <= before.beat.number:
            return False
        self._heard[beat.node] = _Heard(beat, now, (beat.wall_ms - wall_ms) / 1000)
        for one in beat.partitions:
            # Heartbeats of two nodes about one partition arrive in any order, and its log only grows.
            self._tails[one.number] = max(self._tails.get(one.number, 0), one.tail)
            if one.released_to and self._released.get(one.number, (0, 0.0))[0] < one.epoch:
                self._released[one.number] = one.epoch, now
        if len(self._heard) > MEMBERS_MAX:
            # Each process has a new id, so nodes that restart for ever would otherwise fill the memory.
            del self._heard[min(self._heard, key=lambda node: self._heard[node].at)]
        return True

    def tail(self, partition: int) -> int:
        """Return the highest position that an owner of a partition has told of."""
        return self._tails.get(partition, 0)

    def live(self, now: float) -> list[NodeHeartbeat]:
        """Return the last heartbeats of the nodes that are not dead, by name."""
        return sorted((one.beat for one in self._live(now)), key=lambda beat: (beat.name, beat.node))

    def _live(self, now: float) -> list[_Heard]:
        return [one for one in self._heard.values() if now - one.at < self._timing.dead]

    def node(self, node: str, now: float) -> NodeHeartbeat | None:
        """Return the last heartbeat of a node that is not dead."""
        heard = self._heard.get(node)
        return heard.beat if heard is not None and now - heard.at < self._timing.dead else None

    def owner(self, partition: int, now: float) -> PartitionMember | None:
        """Return the owner of a partition: of several that say so, the one with the latest claim."""
        return max(
            (one for one in self._of(partition, now) if one.partition.owns),
            key=lambda one: one.partition.epoch,
            default=None,
        )

    def released(self, partition: int, now: float) -> PartitionMember | None:
        """Return who gave a partition up, if nobody has claimed it since."""
        latest = max(self._of(partition, now), key=lambda one: one.partition.epoch, default=None)
        if latest is None or latest.partition.owns or not latest.partition.released_to:
            return None
        return latest

    def released_seconds_ago(self, partition: int, now: float) -> float:
        """Return how long ago it was heard that the partition was given up."""
        return now - self._released.get(partition, (0, 0.0))[1]

    def _of(self, partition: int, now: float) -> list[PartitionMember]:
        found = []
        for one in self._live(now):
            said = one.beat.partition(partition)
            if said is not None:
                found.append(PartitionMember(one.beat, said))
        return found

    def is_quiet(self, node: str, now: float) -> bool:
        """Say whether a node has been silent for so long that its logs are looked at."""
        heard = self._heard.get(node)
        return heard is None or now - heard.at >= self._timing.quiet

    def skew_seconds(self, node: str, now: float) -> float:
        """Return how far the wall clock of a node is from the median of all."""
        live = self._live(now)
        heard = self._heard.get(node)
        if heard is None or not live:
            return 0.0
        return heard.ahead_seconds - median(one.ahead_seconds for one in live)

    def eligible(self, now: float) -> dict[str, NodeHeartbeat]:
        """Return the nodes that may own partitions, by name; of two of one name the one heard last.

        Those that do not reach the bucket could take nothing over. They count only if that is true of all.
        """
        live = self._live(now)
        if not live:
            return {}
        middle = median(one.ahead_seconds for one in live)
        live.sort(key=lambda one: one.at)
        found = {
            one.beat.name: one.beat
            for one in live
            if not one.beat.draining and abs(one.ahead_seconds - middle) <= SKEW_SECONDS_MAX
        }
        return {name: beat for name, beat in found.items() if not beat.no_bucket} or found
