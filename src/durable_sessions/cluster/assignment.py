"""Which node should own each partition: a function of the names of the nodes and the operator's wishes alone.

Every node computes it for itself. Two that have heard of the same nodes get the same answer; two that have
not may differ for a while, which costs a pause at most, for the log alone decides who owns it.

It is *bounded rendezvous hashing*. Each partition has an order of preference over the nodes, by a hash of
both; partitions choose in the order of their numbers, and a node that has its share takes no more. So shares
are equal, and a node that comes or goes changes little for the partitions that it has nothing to do with.
The *shadow* of a partition, who is ready to take it over, is who should own it if its owner were not there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

_MASK = 2**64 - 1
_MIXERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class OperatorWishes:
    """What an operator has said: which node is to own a partition, and which nodes are to own none."""

    overrides: Mapping[int, str] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()


NO_WISHES = OperatorWishes()


def share_max(partitions: int, nodes: int) -> int:
    """Return how many partitions a node owns at most, unless an operator wishes more."""
    return -(-partitions // nodes)


def assign(
    shared: Sequence[int],
    nodes: Collection[str],
    wishes: OperatorWishes = NO_WISHES,
    *,
    light: Sequence[int] = (),
) -> dict[int, str]:
    """Return who should own each of the partitions with these numbers; nobody, if there is no node.

    Those of ``shared`` are spread evenly. Those of ``light`` cost next to nothing, such as the system
    partition, and take nobody's share. Nodes that were drained own a partition only if there is no other.
    """
    eligible = sorted(set(nodes) - wishes.drained) or sorted(set(nodes))
    if not eligible:
        return {}
    preferences = _Preferences(eligible)
    loads = dict.fromkeys(eligible, 0)
    spread = frozenset(shared)
    owners = {
        number: name
        for number, name in wishes.overrides.items()
        if name in loads and (number in spread or number in light)
    }
    for number, name in owners.items():
        loads[name] += number in spread
    share = share_max(len(shared), len(eligible))
    full = {name for name, load in loads.items() if load >= share}
    for number in shared:
        if number not in owners:
            # Never are all nodes full here: together they take as many as there are, or more.
            owners[number] = name = preferences.first(number, full)
            loads[name] += 1
            if loads[name] >= share:
                full.add(name)
    for number in light:
        if number not in owners:
            owners[number] = preferences.first(number, ())
    return owners


class _Preferences:
    """The order in which partitions prefer the nodes."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._hashed = [(_hash(b"node", node), node) for node in nodes]

    def first(self, number: int, full: Collection[str]) -> str:
        """Return the node that a partition prefers of those that are not full."""
        own = _hash(b"partition", str(number))
        scored = [(_mixed(own ^ hashed), name) for hashed, name in self._hashed]
        best = max(scored)[1]  # mostly it has room, so that nothing need be sorted
        if best in full:
            scored.sort(reverse=True)
            return next(name for _, name in scored if name not in full)
        return best


def _hash(kind: bytes, name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=kind).digest(), "big")


def _mixed(number: int) -> int:
    """Return 64 bits that depend on every bit of the given ones: cheaper than a digest for every pair."""
    number = ((number ^ (number >> 30)) * _MIXERS[0]) & _MASK
    number = ((number ^ (number >> 27)) * _MIXERS[1]) & _MASK
    return number ^ (number >> 31)
