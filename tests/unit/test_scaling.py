"""What fleets need: calculated as the page says, and the page has what the command prints."""

from dataclasses import replace

from bench.options import Fleet, Prices
from bench.scaling import PARTITIONS_MIN, RIG, Machines, Need, need, table

from durable_sessions.partition_id import PARTITIONS_MAX
from tests.support.walkthrough import ROOT


def needed(agents: int) -> Need:
    return need(Fleet(agents=agents), RIG, Prices(), Machines())


def test_the_page_has_what_the_command_prints() -> None:
    assert table(RIG) in (ROOT / "docs" / "scaling.md").read_text()


def test_a_small_fleet_has_what_survival_needs() -> None:
    found = needed(1)
    assert (found.processes, found.nats_servers, found.machines) == (3, 3, 3)
    assert (found.partitions, found.clusters) == (PARTITIONS_MIN, 1)


def test_everything_grows_with_the_fleet() -> None:
    small, large = needed(100_000), needed(20_000_000)
    assert large.month_gb == 200 * small.month_gb
    assert large.clusters == -(-large.partitions // PARTITIONS_MAX) > 1
    assert large.partitions >= large.processes > small.processes
    assert large.dollars > small.dollars


def test_slower_nodes_and_logs_mean_more_of_them() -> None:
    fleet = Fleet(agents=10_000_000)
    usual = need(fleet, RIG, Prices(), Machines())
    slow_nodes = need(fleet, replace(RIG, node_us=2 * RIG.node_us), Prices(), Machines())
    assert slow_nodes.processes >= 2 * usual.processes - 1
    slow_logs = need(fleet, replace(RIG, partition_events_per_second=100.0), Prices(), Machines())
    assert slow_logs.partitions > usual.partitions
