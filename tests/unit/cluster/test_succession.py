"""Who claims the log, and from when on its owner may answer."""

from dataclasses import dataclass
from typing import Any

import pytest

from durable_sessions.cluster.heartbeat import NATS_TIMING, NodeHeartbeat, PartitionBeat
from durable_sessions.cluster.members import MEMBERS_MAX, SKEW_SECONDS_MAX, ClusterMembers
from durable_sessions.cluster.succession import RELEASE_SECONDS_MAX, Step, Succession

PARTITION = 5
_OF_PARTITION = ("owns", "epoch", "tail", "released_to", "moving_to", "catalog")
T = NATS_TIMING


@dataclass
class World:
    """One node, what it has heard, and the time."""

    members: ClusterMembers
    succession: Succession
    now: float = 1000.0
    number: int = 0

    def hear(self, node: str, **said: Any) -> None:
        self.number += 1
        self.members.hear(heartbeat(node, self.number, **said), self.now, 0)

    def step(self, assigned: str = "a") -> Step:
        self.hear("a")
        return self.succession.decide(self.members, assigned, self.now)


def heartbeat(node: str, number: int, **said: Any) -> NodeHeartbeat:
    """Return a heartbeat of a node that says something of the partition, or nothing."""
    of_partition = {name: said.pop(name) for name in _OF_PARTITION if name in said}
    partitions = (PartitionBeat(PARTITION, **of_partition),) if of_partition else ()
    return NodeHeartbeat(node, node, "127.0.0.1:1", number=number, partitions=partitions, **said)


@pytest.fixture
def world() -> World:
    return World(ClusterMembers(T), Succession("a", PARTITION, T, 1000.0))


def test_a_node_that_has_just_started_waits_for_an_owner_to_tell_of_itself(world: World) -> None:
    assert world.step() is Step.WAIT
    world.now += T.dead - 0.01
    assert world.step() is Step.WAIT
    world.now += 0.02
    assert world.step() is Step.WAIT  # chosen once
    assert world.step() is Step.CLAIM


def test_nobody_claims_from_an_owner_that_lives(world: World) -> None:
    world.now += 100
    for _ in range(10):
        world.hear("b", owns=True, epoch=1)
        assert world.step() is Step.FOLLOW
        world.now += T.dead - 0.1
    world.hear("b", owns=True, epoch=1)
    world.now += T.dead
    assert [world.step(), world.step()] == [Step.WAIT, Step.CLAIM]


def test_only_the_assigned_node_claims(world: World) -> None:
    world.now += 100
    assert [world.step("b") for _ in range(5)] == [Step.WAIT] * 5
    assert [world.step(), world.step("b"), world.step(), world.step()] == [
        *(Step.WAIT, Step.WAIT, Step.WAIT),
        Step.CLAIM,
    ]


@pytest.mark.parametrize(
    "said", [{"draining": True}, {"wall_ms": int(SKEW_SECONDS_MAX * 1000) + 1}], ids=["draining", "skewed"]
)
def test_who_is_leaving_or_has_a_wrong_clock_is_not_chosen(world: World, said: dict[str, int]) -> None:
    for _ in range(3):
        world.hear("b")
        world.hear("c")
        world.hear("d", **said)
    assert abs(world.members.skew_seconds("b", world.now)) == 0
    assert sorted(world.members.eligible(world.now)) == ["b", "c"]


def test_of_two_nodes_with_one_name_the_one_heard_last_counts(world: World) -> None:
    for node in ("old", "new"):
        world.number += 1
        world.members.hear(NodeHeartbeat(node, "b", "c:1", number=world.number), world.now, 0)
        world.now += 1
    assert world.members.eligible(world.now)["b"].node == "new"


def test_a_release_is_a_promise_and_is_taken_at_once(world: World) -> None:
    world.hear("b", owns=True, epoch=7, tail=20)
    assert world.step() is Step.FOLLOW
    world.hear("b", epoch=7, tail=21, released_to="a", draining=True)
    assert world.step() is Step.CLAIM
    assert world.succession.may_answer_at(22, world.now, world.members, world.now) == world.now


def test_a_release_to_another_that_dies_ends_with_it(world: World) -> None:
    world.now += 100
    world.hear("b", epoch=7, tail=21, released_to="c", draining=True)
    world.hear("c")
    assert [world.step(), world.step()] == [Step.WAIT, Step.WAIT]
    world.now += T.dead
    assert [world.step(), world.step()] == [Step.WAIT, Step.CLAIM]


def test_a_release_to_another_that_does_not_take_it_ends_after_a_while(world: World) -> None:
    world.now += 100
    world.hear("b", epoch=7, tail=21, released_to="c")
    world.hear("c")
    world.now += RELEASE_SECONDS_MAX - 0.1
    assert [world.step(), world.step()] == [Step.WAIT, Step.WAIT]
    world.now += 0.1
    assert [world.step(), world.step()] == [Step.WAIT, Step.CLAIM]
    assert world.succession.may_answer_at(22, world.now, world.members, world.now) == world.now + T.wait


def test_a_release_before_a_later_claim_counts_no_more(world: World) -> None:
    world.hear("b", epoch=7, tail=21, released_to="a")
    world.hear("c", owns=True, epoch=22, tail=22)
    assert world.step() is Step.FOLLOW
    assert world.members.released(PARTITION, world.now) is None


def test_a_claim_that_was_delayed_is_wanted_no_more_when_others_are_entitled(world: World) -> None:
    def wanted(assigned: str = "a") -> bool:
        return world.succession.is_wanted(world.members, assigned, world.now)

    world.now += 100
    assert [world.step(), world.step()] == [Step.WAIT, Step.CLAIM]
    assert wanted()
    assert not wanted("b")
    world.hear("b", owns=True, epoch=7)
    assert not wanted()
    world.hear("b", epoch=7, tail=9, released_to="c")
    world.hear("c")
    assert not wanted(), "it waits for the one to whom it was released"
    world.now += RELEASE_SECONDS_MAX
    assert wanted()
    world.hear("b", epoch=10, tail=12, released_to="a")
    assert wanted("b"), "a promise counts more than who should own it"


def test_an_owner_that_was_seen_silent_for_long_enough_is_not_waited_for(world: World) -> None:
    world.succession.saw_tail(9, 1000.0)
    world.succession.saw_tail(9, 1002.0)
    assert world.succession.may_answer_at(10, 1004.0, world.members, 1004.0) == 1004.0
    assert world.succession.may_answer_at(10, 1001.0, world.members, 1001.0) == 1000.0 + T.wait


def test_what_came_after_the_last_look_counts_from_the_claim(world: World) -> None:
    world.succession.saw_tail(9, 1000.0)
    assert world.succession.may_answer_at(11, 1004.0, world.members, 1004.0) == 1004.0 + T.wait


def test_the_proof_ends_before_a_successor_answers_whatever_the_clocks_do() -> None:
    assert T.proof < T.wait / 1.09


def test_old_and_foreign_messages_say_nothing(world: World) -> None:
    world.hear("b", owns=True, epoch=3)
    old = heartbeat("b", 0, epoch=9, owns=False)
    assert not world.members.hear(old, world.now, 0)
    assert world.members.owner(PARTITION, world.now) is not None
    for data in (b"", b"{}", b"\xff", b'{"node":1}', b"[]"):
        assert NodeHeartbeat.decode(data) is None
    beat = heartbeat("a", 1, owns=True, epoch=2**60)
    assert NodeHeartbeat.decode(beat.encode()) == beat


def test_members_are_bounded() -> None:
    members = ClusterMembers(T)
    for number in range(MEMBERS_MAX + 5):
        members.hear(NodeHeartbeat(str(number), str(number), "c:1", number=1), float(number), 0)
    assert len(members.live(0.0)) == MEMBERS_MAX
