"""The members of a cluster, as one node has heard of them."""

from dataclasses import dataclass
from hashlib import blake2b
from statistics import median

from durable_sessions.cluster.heartbeat import NodeHeartbeat, Timing

SKEW_SECONDS_MAX = 5.0
"""How far the wall clock of a node may be from the others': beyond it, TTLs would end early."""
MEMBERS_MAX = 1_000
"""How many nodes are kept; beyond it those that were silent for longest are forgotten."""


@dataclass(slots=True)
class _Heard:
    beat: NodeHeartbeat
    at: float
    ahead_seconds: float


class ClusterMembers:
    """The last heartbeat of every node, the own one included, and when it was heard.

    ``now`` is always a monotonic clock that also counts while the machine sleeps, in seconds.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._heard: dict[str, _Heard] = {}
        self.tail = 0
        """The highest position that an owner has told of."""

    def hear(self, beat: NodeHeartbeat, now: float, wall_ms: int) -> bool:
        """Note a heartbeat; return False if it is an old one, which says nothing."""
        before = self._heard.get(beat.node)
        if before is not None and beat.number <= before.beat.number:
            return False
        self._heard[beat.node] = _Heard(beat, now, (beat.wall_ms - wall_ms) / 1000)
        self.tail = max(self.tail, beat.tail)
        if len(self._heard) > MEMBERS_MAX:
            del self._heard[min(self._heard, key=lambda node: self._heard[node].at)]
        return True

    def live(self, now: float) -> list[NodeHeartbeat]:
        """Return the last heartbeats of the nodes that are not dead, by name."""
        return sorted((one.beat for one in self._live(now)), key=lambda beat: (beat.name, beat.node))

    def _live(self, now: float) -> list[_Heard]:
        return [one for one in self._heard.values() if now - one.at < self._timing.dead]

    def owner(self, now: float) -> NodeHeartbeat | None:
        """Return the owner of the log: of several that say so, the one with the latest claim."""
        owners = [one.beat for one in self._live(now) if one.beat.owns]
        return max(owners, key=lambda beat: beat.epoch, default=None)

    def is_suspect(self, node: str, now: float) -> bool:
        """Say whether a node has been silent for so long that it may be dead."""
        heard = self._heard.get(node)
        return heard is None or now - heard.at >= self._timing.suspect

    def released(self, now: float) -> NodeHeartbeat | None:
        """Return the last heartbeat of the owner that gave the log up, if nobody has claimed it since."""
        latest = max((one.beat for one in self._live(now)), key=lambda beat: beat.epoch, default=None)
        return latest if latest is not None and latest.released_to and not latest.owns else None

    def skew_seconds(self, node: str, now: float) -> float:
        """Return how far the wall clock of a node is from the median of all."""
        live = self._live(now)
        heard = self._heard.get(node)
        if heard is None or not live:
            return 0.0
        return heard.ahead_seconds - median(one.ahead_seconds for one in live)

    def successor(self, lineage: str, now: float, without: str = "") -> NodeHeartbeat | None:
        """Return who should own the log if nobody does; every node that hears the same names the same.

        The one to whom it was released; else the first by a hash that changes with the log and the names
        only, so that a node that starts or ends changes nothing for others.
        """
        eligible = [
            beat
            for beat in self.live(now)
            if not beat.draining
            and beat.node != without
            and abs(self.skew_seconds(beat.node, now)) <= SKEW_SECONDS_MAX
        ]
        released = self.released(now)
        for beat in eligible:
            if released is not None and beat.node == released.released_to:
                return beat
        return max(eligible, key=lambda beat: (_rank(lineage, beat.name), beat.node), default=None)


def _rank(lineage: str, name: str) -> bytes:
    return blake2b(f"{lineage}\0{name}".encode(), digest_size=8).digest()
