"""When a node claims the log, and from when on it may answer.

The log alone decides who owns it: a claim on a wrong guess costs its owner a pause, never data. These rules
keep such guesses rare. Nobody claims from an owner that lives; and of those who could, all name the same one.
"""

from enum import Enum

from durable_sessions.cluster.heartbeat import Timing
from durable_sessions.cluster.members import ClusterMembers

CHOICES = 2
"""How many times in a row a node must be the chosen one before it claims."""


class Step(Enum):
    """What a node that does not own the log does now."""

    FOLLOW = "follow"
    WAIT = "wait"
    CLAIM = "claim"


class Succession:
    """The decisions of one node; ``decide`` is asked after each heartbeat of its own."""

    def __init__(self, node: str, lineage: str, timing: Timing, now: float) -> None:
        self._node = node
        self._lineage = lineage
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

    def decide(self, members: ClusterMembers, now: float) -> Step:
        """Return what to do, by what was heard so far."""
        owner = members.owner(now)
        if owner is not None and owner.node != self._node:
            self._chosen = 0
            return Step.FOLLOW
        successor = members.successor(self._lineage, now)
        if successor is None or successor.node != self._node:
            self._chosen = 0
            return Step.WAIT
        released = members.released(now)
        if released is not None and released.released_to == self._node:
            return Step.CLAIM  # a promise of the owner itself: there is nothing to wait for
        if now - self._listens_since < self._timing.dead:
            return Step.WAIT  # an owner may be there that was not heard yet
        self._chosen += 1
        return Step.CLAIM if self._chosen >= CHOICES else Step.WAIT

    def may_answer_at(self, epoch: int, claimed_at: float, members: ClusterMembers, now: float) -> float:
        """Return from when on the owner of a claim may answer: when no predecessor can answer any more.

        A predecessor answers from its state for a while after it *sent* its last acknowledged frame. That
        frame was sent before it was seen, and at the latest before it was fenced by the claim.
        """
        released = members.released(now)
        if released is not None and released.released_to == self._node and released.tail == epoch - 1:
            return claimed_at
        seen_at = self._tail_seen_at if self._tail == epoch - 1 else claimed_at
        return max(claimed_at, seen_at + self._timing.wait)
