"""What fleets of agents need: nodes, partitions, NATS servers, requests, bytes and money.

``python -m bench.scaling`` prints the table of docs/scaling.md. Nothing is measured here: the figures of
:data:`RIG` come from ``python -m bench costs cluster``, and are in docs/benchmarks.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.amplification import FLUSH_SECONDS
from bench.costs import DAYS_PER_MONTH
from bench.options import Fleet, Prices
from durable_sessions.partition_id import PARTITIONS_MAX

SIZES = (1_000, 100_000, 10_000_000)
PEAK = 3.0
"""How many times the average a busy hour has."""
LOAD = 0.5
"""How far processors and logs are used in that hour: the rest is for take-overs, flushes and growth."""
PARTITIONS_MIN = 8
COPIES_BETWEEN_ZONES = 3.0
"""How often a byte crosses a zone: to the leader of its log, and from there to two other servers."""
FLUSH_BYTES = 8 * 1024 * 1024
_HOURS_PER_MONTH = 24 * DAYS_PER_MONTH


@dataclass(frozen=True)
class Rig:
    """What was measured on one machine with two cores; NATS, nodes and clients shared them and one disk."""

    partition_events_per_second: float
    node_us: float
    nats_us: float
    puts_per_flush: float = 3.25
    lists_per_flush: float = 1.12
    gets_per_flush: float = 1.01
    gets_per_session_read: float = 12.0
    kept_bytes_per_payload_byte: float = 0.35


APPEND_US, PASSED_ON = 150.0, 641 / 444
"""Processor time of an event with its flush, and how many times that it is if another node took it first."""
RIG = Rig(partition_events_per_second=8_648, node_us=APPEND_US * PASSED_ON, nats_us=70.0)


@dataclass(frozen=True)
class Machines:
    """Prices of what is not a bucket, in US dollars: assumed, list prices of a large cloud."""

    core_hour: float = 0.04
    gb_between_zones: float = 0.02
    cores_per_machine: int = 4


@dataclass(frozen=True)
class Need:
    """What one fleet needs; dollars are per month."""

    agents: int
    events_per_second: float
    peak_events_per_second: float
    partitions: int
    clusters: int
    processes: int
    nats_servers: int
    machines: int
    month_gb: float
    kept_gb: float
    puts: float
    bucket_dollars: float
    machine_dollars: float
    traffic_dollars: float

    @property
    def dollars(self) -> float:
        """The whole bill of a month."""
        return self.bucket_dollars + self.machine_dollars + self.traffic_dollars


def need(fleet: Fleet, rig: Rig, prices: Prices, machines: Machines) -> Need:
    """Return what a fleet needs in its busiest hour, and what a month costs."""
    month = fleet.agents * fleet.hours_per_day * fleet.events_per_hour * DAYS_PER_MONTH
    average = month / (DAYS_PER_MONTH * 86_400)
    peak = PEAK * average
    # A node is one process, and uses one core; three are there for survival, however little there is to do.
    processes = max(3, math.ceil(peak * rig.node_us / 1e6 / LOAD))
    logs = math.ceil(peak / (LOAD * rig.partition_events_per_second))
    partitions = max(PARTITIONS_MIN, processes, logs)  # a node without a partition only passes on
    nats_cores = peak * rig.nats_us / 1e6 / LOAD
    groups = max(
        math.ceil(partitions / PARTITIONS_MAX), math.ceil(nats_cores / (3 * machines.cores_per_machine))
    )
    cores = processes + 3 * groups * (machines.cores_per_machine if nats_cores > 3 else 1)
    month_gb = month * fleet.bytes_per_event / 1e9
    flushes = max(partitions * _HOURS_PER_MONTH * 3600 / FLUSH_SECONDS, month_gb * 1e9 / FLUSH_BYTES)
    puts = flushes * rig.puts_per_flush
    gets = flushes * rig.gets_per_flush
    gets += fleet.agents * fleet.cold_reads_per_day * DAYS_PER_MONTH * rig.gets_per_session_read
    kept_gb = month_gb / DAYS_PER_MONTH * fleet.kept_days * rig.kept_bytes_per_payload_byte
    bucket = kept_gb * prices.storage_gb_month + gets / 1000 * prices.get_thousand
    bucket += (puts + flushes * rig.lists_per_flush) / 1000 * prices.put_thousand
    return Need(
        agents=fleet.agents,
        events_per_second=average,
        peak_events_per_second=peak,
        partitions=partitions,
        clusters=math.ceil(partitions / PARTITIONS_MAX),
        processes=processes,
        nats_servers=3 * groups,
        machines=max(3, math.ceil(cores / machines.cores_per_machine)),
        month_gb=month_gb,
        kept_gb=kept_gb,
        puts=puts,
        bucket_dollars=bucket,
        machine_dollars=cores * _HOURS_PER_MONTH * machines.core_hour,
        traffic_dollars=month_gb * COPIES_BETWEEN_ZONES * machines.gb_between_zones,
    )


_ROWS: Sequence[tuple[str, Callable[[Need], str]]] = (
    ("events/s, average", lambda one: f"{one.events_per_second:,.0f}"),
    ("events/s, busiest hour", lambda one: f"{one.peak_events_per_second:,.0f}"),
    ("partitions", lambda one: f"{one.partitions:,}"),
    ("clusters, of 100 partitions at most", lambda one: f"{one.clusters:,}"),
    ("nodes (processes, a core each)", lambda one: f"{one.processes:,}"),
    ("NATS servers", lambda one: f"{one.nats_servers:,}"),
    ("machines of 4 cores", lambda one: f"{one.machines:,}"),
    ("GB of events a month", lambda one: f"{one.month_gb:,.0f}"),
    ("GB kept in the bucket", lambda one: f"{one.kept_gb:,.0f}"),
    ("million PUTs a month", lambda one: f"{one.puts / 1e6:,.1f}"),
    ("$ a month: bucket", lambda one: f"{one.bucket_dollars:,.0f}"),
    ("$ a month: machines", lambda one: f"{one.machine_dollars:,.0f}"),
    ("$ a month: traffic between zones", lambda one: f"{one.traffic_dollars:,.0f}"),
    ("$ a month for 1,000 agents", lambda one: f"{one.dollars / one.agents * 1000:,.2f}"),
)


def table(rig: Rig) -> str:
    """Return what fleets of all sizes need, as Markdown."""
    needs = [need(Fleet(agents=agents), rig, Prices(), Machines()) for agents in SIZES]
    lines = ["| agents | " + " | ".join(f"{one.agents:,}" for one in needs) + " |"]
    lines.append("|---|" + "---|" * len(needs))
    lines += [f"| {name} | " + " | ".join(write(one) for one in needs) + " |" for name, write in _ROWS]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(RIG))
