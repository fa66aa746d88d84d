"""The simulation of large clusters: it finds every partition an owner, and counts what it says it counts."""

import pytest
from click.testing import CliRunner

from durable_sessions.cluster.heartbeat import NATS_TIMING
from durable_sessions.testing.fleet import FleetTakeOver, distribute_keys, heartbeat_cost, main, shares


def test_shares_are_even_and_a_dead_node_is_inherited_by_others() -> None:
    found = shares(20, 200)
    assert (found.fewest, found.most) == (10, 10)
    assert found.moved_by_death >= 10
    assert found.moved_by_death - found.needlessly_moved == 10
    assert 1 < found.heirs_of_dead <= 10
    assert found.moved_by_birth >= 200 // 21


@pytest.mark.parametrize(("killed", "loss"), [(1, 0.0), (1, 0.2), (3, 0.0), (3, 0.2)])
def test_every_partition_of_a_dead_node_is_claimed(killed: int, loss: float) -> None:
    found = FleetTakeOver(20, 200, loss=loss, seed=7).kill(killed)
    assert found.partitions == 10 * killed
    # Not before a node counts as dead by what was heard of it, and twice in a row.
    assert found.median_seconds >= NATS_TIMING.dead - 2 * NATS_TIMING.beat
    assert found.median_seconds <= found.longest_seconds <= NATS_TIMING.dead + 3 * NATS_TIMING.beat


def test_without_loss_nobody_disputes_the_partitions_of_one_node() -> None:
    assert FleetTakeOver(20, 200, seed=7).kill(1).refused_claims == 0


def test_a_seed_is_the_same_run_again() -> None:
    runs = [FleetTakeOver(20, 200, loss=0.2, seed=3).kill(2) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_node_hears_every_other_one() -> None:
    found = heartbeat_cost(30)
    assert found.heard_per_second == 30 / NATS_TIMING.beat
    assert found.received_bytes_per_second == pytest.approx(found.bytes * found.heard_per_second, rel=0.1)


def test_a_revocation_reaches_all_as_one_change() -> None:
    found = distribute_keys(5, 300)
    assert found.snapshot_bytes > 300 * 100
    assert 100 < found.change_bytes < 1000


def test_the_command_says_all_of_it() -> None:
    done = CliRunner().invoke(main, ["--nodes", "100", "--partitions", "200", "--keys", "10"])
    assert done.exit_code == 0, done.output
    said = [line.partition(":")[0] for line in done.output.splitlines()]
    assert [word.split(",")[0] for word in said[1:]] == [
        "assignment",
        "heartbeats",
        *["take-over"] * 3,
        "keys",
    ]
