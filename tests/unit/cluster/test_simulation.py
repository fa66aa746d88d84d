"""Nodes with lossy heartbeats, pauses and drifting clocks on the log of one partition, which also moves.

What is answered is never out of date. The decisions are the real ones, in simulated time; the log is a model
that does what a real one promises. Each planted fault must be found by some seed.
"""

import random
from dataclasses import dataclass, field

import pytest

from durable_sessions.cluster.assignment import assign
from durable_sessions.cluster.heartbeat import NATS_TIMING, NodeHeartbeat, PartitionBeat
from durable_sessions.cluster.members import ClusterMembers
from durable_sessions.cluster.succession import Step, Succession

PARTITION = 3
T = NATS_TIMING
TICK = 0.1
SEEDS = range(40)


class StaleError(Exception):
    """An owner answered from its state although another had acknowledged something."""


@dataclass
class Log:
    """Frames by their owner; the condition of an append is the exact last position."""

    owners: list[str] = field(default_factory=list)
    acknowledged: int = 0

    def append(self, node: str, after: int) -> bool:
        if len(self.owners) != after:
            return False
        self.owners.append(node)
        return True


class Node:
    """One node; its clock runs at a rate of its own, and stands still for nobody: it also counts pauses."""

    def __init__(self, name: str, rate: float) -> None:
        self.name = name
        self.rate = rate
        self.members = ClusterMembers(T)
        self.succession = Succession(name, PARTITION, T, 0.0)
        self.beats = 0
        self.epoch = self.tail = 0
        self.answers_at = 0.0
        self.proven_until = 0.0
        self.known = 0
        self.paused_until = 0.0
        self.next_beat = 0.0
        self.released: PartitionBeat | None = None
        self.zombie = False

    def clock(self, now: float) -> float:
        return now * self.rate

    @property
    def owns(self) -> bool:
        return self.epoch > 0


class World:
    """Three nodes, and what happens to them."""

    def __init__(
        self,
        seed: int,
        *,
        wait: bool = True,
        from_answer: bool = False,
        steal: bool = False,
        answers_on: bool = False,
    ) -> None:
        self.chance = random.Random(seed)
        self.log = Log()
        self.nodes = [Node(name, self.chance.uniform(0.96, 1.04)) for name in "abc"]
        self.now = 0.0
        self.claims = self.moves = 0
        self._wait, self._from_answer, self._steal = wait, from_answer, steal
        self._answers_on = answers_on

    def run(self, seconds: float) -> None:
        while self.now < seconds:
            self.now += TICK
            for node in self.nodes:
                if self.now >= node.paused_until:
                    self.turn(node)
            if self.chance.random() < 0.01:
                victim = self.chance.choice(self.nodes)
                victim.paused_until = self.now + self.chance.choice([1.0, 3.2, 5.0, 20.0])

    def turn(self, node: Node) -> None:
        clock = node.clock(self.now)
        if self.now >= node.next_beat:
            node.next_beat = self.now + T.beat
            self.beat(node, clock)
            if not node.owns:
                node.succession.saw_tail(len(self.log.owners), clock)
                step = node.succession.decide(node.members, self.assigned(node, clock), clock)
                if step is Step.CLAIM or (self._steal and self.chance.random() < 0.05):
                    self.claim(node, clock)
        if node.owns and clock >= node.answers_at:
            if self.chance.random() < 0.02:
                self.hand_over(node, clock)
            else:
                self.serve(node, clock)
        elif node.zombie:
            self.answer(node, clock)

    def assigned(self, node: Node, clock: float) -> str | None:
        eligible = node.members.eligible(clock)
        return assign([PARTITION], eligible).get(PARTITION)

    def hand_over(self, node: Node, clock: float) -> None:
        """Give the log to another node, and stop answering before that."""
        to = self.chance.choice([other.name for other in self.nodes if other is not node])
        if not self.log.append(node.name, node.tail):
            return self.fenced(node, clock)
        self.moves += 1
        node.released = PartitionBeat(PARTITION, epoch=node.epoch, tail=node.tail + 1, released_to=to)
        node.epoch = 0
        node.zombie = self._answers_on
        node.next_beat = self.now  # told at once
        return None

    def beat(self, node: Node, clock: float) -> None:
        node.beats += 1
        owns = node.owns and clock >= node.answers_at
        said = PartitionBeat(PARTITION, owns=owns, epoch=node.epoch, tail=node.tail)
        if not owns and node.released is not None:
            said = node.released
        beat = NodeHeartbeat(node.name, node.name, "x:1", number=node.beats, partitions=(said,))
        for other in self.nodes:
            if other is node or (self.chance.random() > 0.2 and self.now >= other.paused_until):
                other.members.hear(beat, other.clock(self.now), 0)
                if owns and other is not node:
                    other.released = None

    def claim(self, node: Node, clock: float) -> None:
        tail = len(self.log.owners)
        assert self.log.append(node.name, tail)
        self.claims += 1
        node.released, node.zombie = None, False
        node.epoch = node.tail = tail + 1
        node.proven_until = clock + T.proof
        node.known = self.log.acknowledged
        at = node.succession.may_answer_at(node.epoch, clock, node.members, clock)
        node.answers_at = at if self._wait else clock

    def serve(self, node: Node, clock: float) -> None:
        """Append, or answer a read from the state, if that is proven."""
        if self.chance.random() < 0.3:
            sent, delay = clock, self.chance.choice([0.0, 0.0, 0.0, 2.5])
            if not self.log.append(node.name, node.tail):
                return self.fenced(node, clock)
            node.tail += 1
            self.log.acknowledged += 1
            node.known = self.log.acknowledged
            # The answer may come late: the proof counts from the send all the same.
            node.proven_until = max(
                node.proven_until, (sent + delay if self._from_answer else sent) + T.proof
            )
            if delay and self.chance.random() < 0.5:
                node.paused_until = self.now + delay
        self.answer(node, clock)
        if clock >= node.proven_until and len(self.log.owners) != node.tail:
            return self.fenced(node, clock)
        if clock >= node.proven_until and self.log.append(node.name, node.tail):
            node.tail += 1
            node.proven_until = clock + T.proof
        return None

    def answer(self, node: Node, clock: float) -> None:
        """Answer a read from the state, if that is proven."""
        if clock < node.proven_until and node.known != self.log.acknowledged:
            raise StaleError(f"{node.name} answered at {self.now:.1f}")

    def fenced(self, node: Node, clock: float) -> None:
        node.epoch = 0
        node.succession.listen_again(clock)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_answer_is_out_of_date(seed: int) -> None:
    world = World(seed)
    world.run(120.0)
    assert world.claims > 1
    assert world.moves
    assert world.log.acknowledged > 50


def test_even_nodes_that_steal_the_log_make_no_answer_out_of_date() -> None:
    for seed in SEEDS:
        World(seed, steal=True).run(60.0)


@pytest.mark.parametrize(
    "planted",
    [{"wait": False}, {"from_answer": True}, {"answers_on": True}],
    ids=["no wait", "from the answer", "answers after a release"],
)
def test_a_planted_fault_is_found(planted: dict[str, bool]) -> None:
    def search() -> None:
        for seed in range(200):
            World(seed, steal=True, **planted).run(60.0)

    with pytest.raises(StaleError):
        search()
