"""A cluster larger than any that was run: a thousand nodes and ten thousand partitions, simulated.

What decides is the code that nodes run: who should own which partition (``cluster.assignment``), when a
silent node counts as dead (``cluster.members``), when one claims what was another's (``cluster.succession``),
and how keys reach every node (``access.key_publisher``).
Only time and the network are simulated. ``python -m durable_sessions.testing.fleet`` prints what
docs/scaling.md says.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import click
import msgspec

from durable_sessions.access.key import KeyDocument, digest
from durable_sessions.access.key_feed import KeyChanged, KeysSeen, SnapshotEnded, records
from durable_sessions.access.key_publisher import KeyPublisher
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import ManualClock
from durable_sessions.cluster.assignment import assign
from durable_sessions.cluster.heartbeat import NATS_TIMING, NodeHeartbeat, PartitionBeat, Timing
from durable_sessions.cluster.members import ClusterMembers
from durable_sessions.cluster.succession import CHOICES, Step, Succession
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS

HEARD_SECONDS = 0.05
"""How long a claim takes to reach the other nodes: until then another may try, and is refused by the log."""


def node_names(count: int) -> list[str]:
    """Return the names of this many nodes."""
    return [f"node-{number:04d}" for number in range(count)]


# Assignment -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssignmentSpread:
    """How evenly partitions are spread, and what moves when a node goes or comes."""

    fewest: int
    most: int
    seconds: float
    moved_by_death: int
    needlessly_moved: int
    heirs_of_dead: int
    moved_by_birth: int


def shares(nodes: int, partitions: int) -> AssignmentSpread:
    """Assign all partitions, then once more without the first node, and with another one."""
    names, numbers = node_names(nodes), range(partitions)
    begin = time.process_time()
    before = assign(numbers, names)
    seconds = time.process_time() - begin
    owned = Counter(before.values())
    dead = names[0]
    without = assign(numbers, names[1:])
    grown = assign(numbers, [*names, "node-new"])
    moved = [number for number in numbers if without[number] != before[number]]
    heirs = {without[number] for number in numbers if before[number] == dead}
    return AssignmentSpread(
        fewest=min(owned[name] for name in names),
        most=max(owned.values()),
        seconds=seconds,
        moved_by_death=len(moved),
        needlessly_moved=sum(before[number] != dead for number in moved),
        heirs_of_dead=len(heirs),
        moved_by_birth=sum(grown[number] != before[number] for number in numbers),
    )


# Heartbeats -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeartbeatCost:
    """What heartbeats take: bytes of one, and what a node spends on those of all others."""

    bytes: int
    heard_per_second: float
    received_bytes_per_second: float
    core: float


def heartbeat_cost(nodes: int, timing: Timing = NATS_TIMING) -> HeartbeatCost:
    """Let a node hear one round of heartbeats of all nodes, and measure its processor time."""
    beats = [
        NodeHeartbeat(
            node=f"node_{name}",
            name=name,
            link="10.20.30.40:4440",
            url=f"http://{name}.example.com:4437",
            version="0.5.0",
            number=1_000_000,
            wall_ms=1_800_000_000_000,
        ).encode()
        for name in node_names(nodes)
    ]
    members = ClusterMembers(timing)
    begin = time.process_time()
    for data in beats:
        beat = NodeHeartbeat.decode(data)
        assert beat is not None
        members.hear(beat, 0.0, beat.wall_ms)
    seconds = time.process_time() - begin
    return HeartbeatCost(
        bytes=len(beats[0]),
        heard_per_second=nodes / timing.beat,
        received_bytes_per_second=sum(map(len, beats)) / timing.beat,
        core=seconds / timing.beat,
    )


# Take-over ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakeOver:
    """When the partitions of killed nodes were claimed, in seconds after the kill, and at what price."""

    partitions: int
    median_seconds: float
    longest_seconds: float
    refused_claims: int
    most_per_heir: int


class FleetTakeOver:
    """Nodes that are killed at once, and what every other one hears, decides and claims.

    Every node sends heartbeats at a phase of its own, and decides after each; ``loss`` is the part of
    heartbeats that do not arrive. Survivors that consider the same nodes dead decide alike.
    """

    def __init__(self, nodes: int, partitions: int, *, loss: float = 0.0, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._names = node_names(nodes)
        self._numbers = range(partitions)
        self._loss = loss
        self._timing = NATS_TIMING
        self._phases = {name: self._random.random() * self._timing.beat for name in self._names}
        self._owners = assign(self._numbers, self._names)
        self._plans: dict[frozenset[str], dict[str, list[int]]] = {}

    def kill(self, count: int) -> TakeOver:
        """Kill this many nodes at time 0, and return how their partitions were taken over."""
        killed = self._random.sample(self._names, count)
        orphans = {number for number in self._numbers if self._owners[number] in killed}
        claims = sorted(self._claims(killed))
        won: dict[int, tuple[float, str]] = {}
        refused = 0
        for at, number, name in claims:
            if number not in won:
                won[number] = at, name
            elif won[number][1] != name and at < won[number][0] + HEARD_SECONDS:
                refused += 1
        assert won.keys() == orphans, "every partition has found an owner, and no other was claimed"
        times = [at for at, _ in won.values()]
        heirs = Counter(name for _, name in won.values())
        return TakeOver(len(won), median(times), max(times), refused, max(heirs.values()))

    def _claims(self, killed: Sequence[str]) -> Iterator[tuple[float, int, str]]:
        """Yield time, partition and name of everyone who would claim a partition, if he is first."""
        living = [name for name in self._names if name not in killed]
        told = [self._last_told(name) for name in killed]
        for name in living:
            survivor = _Survivor(name, living, self._timing)
            for beat, heard_at in zip(told, self._heard_at(killed), strict=True):
                survivor.members.hear(beat, heard_at, 0)
            yield from self._claims_of(survivor, frozenset(killed))

    def _last_told(self, name: str) -> NodeHeartbeat:
        """Return the last heartbeat of a node that was killed."""
        owned = [number for number in self._numbers if self._owners[number] == name]
        parts = tuple(PartitionBeat(number, owns=True, epoch=1) for number in owned)
        return NodeHeartbeat(name, name, "127.0.0.1:1", number=1, partitions=parts)

    def _heard_at(self, killed: Sequence[str]) -> Iterator[float]:
        """Yield when one survivor has heard the last heartbeat of each killed node that arrived."""
        for name in killed:
            heard = -self._phases[name]
            while self._random.random() < self._loss:
                heard -= self._timing.beat
            yield heard

    def _claims_of(self, survivor: "_Survivor", killed: frozenset[str]) -> Iterator[tuple[float, int, str]]:
        now = self._phases[survivor.name]
        last = self._timing.dead + CHOICES * self._timing.beat
        while now <= last:
            survivor.hear_all(now)
            dead = killed.difference(survivor.members.eligible(now))
            mine = self._plan(dead).get(survivor.name, []) if dead else []
            for number in survivor.decide(mine, now):
                yield now, number, survivor.name
            now += self._timing.beat

    def _plan(self, dead: frozenset[str]) -> dict[str, list[int]]:
        """Return which orphaned partitions each survivor should own, if these nodes are dead."""
        if dead not in self._plans:
            owners = assign(self._numbers, [name for name in self._names if name not in dead])
            plan: dict[str, list[int]] = {}
            for number in self._numbers:
                if self._owners[number] in dead:
                    plan.setdefault(owners[number], []).append(number)
            self._plans[dead] = plan
        return self._plans[dead]


class _Survivor:
    """A node as it decides in a cluster: by what it has heard of all others."""

    def __init__(self, name: str, living: Sequence[str], timing: Timing) -> None:
        self.name = name
        self.members = ClusterMembers(timing)
        self._living = living
        self._timing = timing
        self._beats = 0
        self._heard_at = -math.inf
        self._successions: dict[int, Succession] = {}
        self._claimed: set[int] = set()

    def hear_all(self, now: float) -> None:
        """Hear of all that live, as often as it takes so that none of them is taken for dead."""
        if now - self._heard_at < self._timing.dead / 2:
            return
        self._heard_at, self._beats = now, self._beats + 1
        for name in self._living:
            self.members.hear(NodeHeartbeat(name, name, "127.0.0.1:1", number=self._beats), now, 0)

    def decide(self, mine: Sequence[int], now: float) -> Iterator[int]:
        """Yield the partitions to claim now; ``mine`` are those that this node should own."""
        for number in mine:
            if number not in self._successions:
                self._successions[number] = Succession(self.name, number, self._timing, -math.inf)
        for number, succession in self._successions.items():
            assigned = self.name if number in mine else None
            step = succession.decide(self.members, assigned, now)
            if step is Step.CLAIM and number not in self._claimed:
                self._claimed.add(number)
                yield number


# Keys -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyDistribution:
    """What it takes until every node has a revocation: bytes, and processor time of all taking part."""

    followers: int
    keys: int
    snapshot_bytes: int
    change_bytes: int
    revoke_cpu_ms: float
    confirm_core: float


def distribute_keys(followers: int, keys: int) -> KeyDistribution:
    """Let this many nodes follow a table of this many keys, and revoke one."""
    return asyncio.run(_distribute_keys(followers, keys))


def _document(number: int, revoked_at_ms: int | None = None) -> KeyDocument:
    return KeyDocument(
        id=f"key_{number:08d}",
        workspace="default",
        principal=f"agent {number}",
        role="writer",
        digest=digest(str(number).encode()).hex(),
        created_at_ms=1,
        created_by="operator",
        revoked_at_ms=revoked_at_ms,
    )


async def _distribute_keys(count: int, keys: int) -> KeyDistribution:
    table = KeyTable(ManualClock(), "default")
    table.replace(_document(number) for number in range(keys))
    publisher = KeyPublisher(table, RandomIds(), DEFAULT_LIMITS, time.monotonic)
    received, versions, complete = [0] * count, [-1] * count, asyncio.Event()

    def acknowledge(number: int, version: int) -> None:
        seen = KeysSeen(f"node-{number}", publisher.incarnation, version)
        publisher.acknowledge(msgspec.json.encode(seen))
        versions[number] = version
        if not complete.is_set() and min(versions) == table.version:
            complete.set()

    async def follow(number: int) -> None:
        async def counted() -> AsyncIterator[bytes]:
            async for chunk in publisher.follow(f"node-{number}"):
                received[number] += len(chunk)
                yield chunk

        async for record in records(counted(), DEFAULT_LIMITS.key_feed_slice_bytes_max * 2):
            if isinstance(record, SnapshotEnded | KeyChanged):
                acknowledge(number, record.version)

    tasks = [asyncio.create_task(follow(number)) for number in range(count)]
    await complete.wait()
    snapshots = list(received)
    begin = time.process_time()
    table.apply(_document(0, revoked_at_ms=2))
    assert await publisher.everywhere(), "every node has the revocation"
    spent = time.process_time() - begin
    changes = [after - before for after, before in zip(received, snapshots, strict=True)]
    begin = time.process_time()
    for number in range(count):
        acknowledge(number, table.version)
    confirming = time.process_time() - begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return KeyDistribution(
        followers=count,
        keys=keys,
        snapshot_bytes=max(snapshots),
        change_bytes=max(changes),
        revoke_cpu_ms=spent * 1e3,
        confirm_core=confirming / DEFAULT_LIMITS.key_confirm_seconds,
    )


# Command --------------------------------------------------------------------------------------


@click.command()
@click.option("--nodes", default=1_000, show_default=True, type=click.IntRange(min=10))
@click.option("--partitions", default=10_000, show_default=True, type=click.IntRange(min=1))
@click.option("--keys", default=10_000, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=1, show_default=True)
def main(nodes: int, partitions: int, keys: int, seed: int) -> None:
    """Simulate a cluster of this many nodes and partitions, and print what it takes."""
    spread = shares(nodes, partitions)
    click.echo(f"{nodes} nodes, {partitions} partitions")
    click.echo(
        f"assignment: {spread.fewest} to {spread.most} per node, {spread.seconds:.1f} s of processor time;"
        f" a node that dies moves {spread.moved_by_death} ({spread.needlessly_moved} of them not its own)"
        f" to {spread.heirs_of_dead} or more nodes, one that comes moves {spread.moved_by_birth}"
    )
    cost = heartbeat_cost(nodes)
    click.echo(
        f"heartbeats: {cost.bytes} bytes; each node hears {cost.heard_per_second:,.0f} a second,"
        f" {cost.received_bytes_per_second / 1e6:.2f} MB/s, for {cost.core:.1%} of a core"
    )
    for killed, loss in ((1, 0.0), (1, 0.05), (nodes // 100, 0.0)):
        found = FleetTakeOver(nodes, partitions, loss=loss, seed=seed).kill(killed)
        click.echo(
            f"take-over, {killed} killed, {loss:.0%} of heartbeats lost: {found.partitions} partitions"
            f" claimed after {found.median_seconds:.1f} s, the last after {found.longest_seconds:.1f} s;"
            f" {found.refused_claims} claims refused by a log, {found.most_per_heir} at most for one node"
        )
    told = distribute_keys(nodes - 1, keys)
    click.echo(
        f"keys: {told.keys} in {told.snapshot_bytes / 1e6:.1f} MB for each node that starts; a revocation is"
        f" {told.change_bytes} bytes for each, and takes {told.revoke_cpu_ms:.0f} ms of processor time until"
        f" all have acknowledged it; confirming them all the time takes {told.confirm_core:.1%} of a core"
    )


if __name__ == "__main__":
    main()
