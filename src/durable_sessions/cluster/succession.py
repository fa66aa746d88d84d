"""When a node claims a partition, and from when on it may answer for it.

The log alone decides who owns a partition: a claim on a wrong guess costs its owner a pause, never data.
These rules keep such guesses rare. Nobody claims from an owner that lives; and of those who could, all name
the same one.
"""

from enum import Enum

from durable_sessions.cluster.heartbeat import Timing
from durable_sessions.cluster.members import ClusterMembers

CHOICES = 2
"""How many times in a row a node must be the chosen one before it claims."""
RELEASE_SECONDS_MAX = 2.0
"""How long a partition waits for the one to whom it was released; then whoever is assigned takes it."""


class Step(Enum):
    """What a node that does not own a partition does now."""

    FOLLOW = "follow"
    WAIT = "wait"
    CLAIM = "claim"


class Succession:
    """The decisions of one node about one partition; ``decide`` is asked after each heartbeat of its own."""

    def __init__(self, node: str, partition: int, timing: Timing, now: float) -> None:
        self._node = node
        self._partition = partition
        self._timing = timing
        self._chosen = 0
        self._listens_since = now
        self._tail = -1
        self._tail_seen_at = now

    def listen_again(self, now: float) -> None:
        """Begin anew after the log was lost or could not be opened: hear first whether another has it."""
        self._chosen = 0
        self._listens_since = now

    def saw_tail(self, tail: int, now: float) -> None:
        """Note where the log ended when it was looked at; ``now`` is when the answer came."""
        if tail != self._tail:
            self._tail, self._tail_seen_at = tail, now

    def decide(self, members: ClusterMembers, assigned: str | None, now: float) -> Step:
        """Return what to do, by what was heard so far; ``assigned`` is the node that should own it."""
        owner = members.owner(self._partition, now)
        if owner is not None and owner.beat.node != self._node:
            self._chosen = 0
            return Step.FOLLOW
        if not self.is_wanted(members, assigned, now):
            self._chosen = 0
            return Step.WAIT
        released = members.released(self._partition, now)
        if released is not None and released.partition.released_to == self._node:
            return Step.CLAIM  # a promise of the owner itself: there is nothing to wait for
        if now - self._listens_since < self._timing.dead:
            return Step.WAIT  # an owner may be there that was not heard yet
        self._chosen += 1
        return Step.CLAIM if self._chosen >= CHOICES else Step.WAIT

    def is_wanted(self, members: ClusterMembers, assigned: str | None, now: float) -> bool:
        """Say whether a claim is wanted by what was heard so far; asked again when its turn comes."""
        owner = members.owner(self._partition, now)
        if owner is not None and owner.beat.node != self._node:
            return False
        released = members.released(self._partition, now)
        if released is not None:
            to = released.partition.released_to
            if to == self._node:
                return True
            waited = members.released_seconds_ago(self._partition, now) >= RELEASE_SECONDS_MAX
            if not waited and members.node(to, now) is not None:
                return False
        return assigned == self._node

    def may_answer_at(self, epoch: int, claimed_at: float, members: ClusterMembers, now: float) -> float:
        """Return from when on the owner of a claim may answer: when no predecessor can answer any more.

        A predecessor answers from its state for a while after it *sent* its last acknowledged frame. That
        frame was sent before it was seen, and at the latest before it was fenced by the claim.
        """
        released = members.released(self._partition, now)
        if released is not None:
            said = released.partition
            if said.released_to == self._node and said.tail == epoch - 1:
                return claimed_at
        seen_at = self._tail_seen_at if self._tail == epoch - 1 else claimed_at
        return max(claimed_at, seen_at + self._timing.wait)
