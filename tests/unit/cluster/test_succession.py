"""Who claims the log, and from when on its owner may answer."""

from dataclasses import dataclass
from typing import Any

import pytest

from durable_sessions.cluster.heartbeat import NATS_TIMING, NodeHeartbeat
from durable_sessions.cluster.members import MEMBERS_MAX, SKEW_SECONDS_MAX, ClusterMembers
from durable_sessions.cluster.succession import Step, Succession

LINEAGE = "log_" + "0" * 32
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
        self.members.hear(NodeHeartbeat(node, node, "127.0.0.1:1", number=self.number, **said), self.now, 0)

    def step(self) -> Step:
        self.hear("a")
        return self.succession.decide(self.members, self.now)


@pytest.fixture
def world() -> World:
    return World(ClusterMembers(T), Succession("a", LINEAGE, T, 1000.0))


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


def test_all_nodes_name_the_same_successor(world: World) -> None:
    names = [f"node-{number}" for number in range(7)]
    for name in reversed(names):
        world.hear(name)
    chosen = world.members.successor(LINEAGE, world.now)
    assert chosen is not None
    other = ClusterMembers(T)
    for number, name in enumerate(names, 1):
        other.hear(NodeHeartbeat(name, name, "127.0.0.1:1", number=number), 5.0, 0)
    same = other.successor(LINEAGE, 5.0)
    assert same is not None
    assert same.name == chosen.name
    without = other.successor(LINEAGE, 5.0, without=same.node)
    assert without is not None
    assert without.name != same.name


@pytest.mark.parametrize(
    "said", [{"draining": True}, {"wall_ms": int(SKEW_SECONDS_MAX * 1000) + 1}], ids=["draining", "skewed"]
)
def test_who_is_leaving_or_has_a_wrong_clock_is_not_chosen(world: World, said: dict[str, int]) -> None:
    for _ in range(3):
        world.hear("b")
        world.hear("c")
        world.hear("d", **said)
    assert abs(world.members.skew_seconds("b", world.now)) == 0
    for lineage in map(str, range(50)):
        chosen = world.members.successor(lineage, world.now)
        assert chosen is not None
        assert chosen.node != "d"


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


def test_a_release_before_a_later_claim_counts_no_more(world: World) -> None:
    world.hear("b", epoch=7, tail=21, released_to="a")
    world.hear("c", owns=True, epoch=22, tail=22)
    assert world.step() is Step.FOLLOW
    assert world.members.released(world.now) is None


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
    old = NodeHeartbeat("b", "b", "127.0.0.1:1", number=0, epoch=9, owns=False)
    assert not world.members.hear(old, world.now, 0)
    assert world.members.owner(world.now) is not None
    for data in (b"", b"{}", b"\xff", b'{"node":1}', b"[]"):
        assert NodeHeartbeat.decode(data) is None
    beat = NodeHeartbeat("a", "b", "c:1", owns=True, epoch=2**60)
    assert NodeHeartbeat.decode(beat.encode()) == beat


def test_members_are_bounded() -> None:
    members = ClusterMembers(T)
    for number in range(MEMBERS_MAX + 5):
        members.hear(NodeHeartbeat(str(number), str(number), "c:1", number=1), float(number), 0)
    assert len(members.live(0.0)) == MEMBERS_MAX
