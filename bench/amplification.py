"""What a payload byte costs on the disk and in the bucket: written bytes, requests, processor time."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench import agents, feeding, s3
from bench.figures import Result, say
from bench.options import Fleet, Options
from bench.place import Place
from bench.reading import Reader
from bench.report import Column, Table
from bench.server import Server
from durable_sessions.settings import Settings

FLUSH_SECONDS = Settings().flush_seconds
CYCLE_SECONDS = 0.4
"""How long a minute of the fleet takes here; merging must find time in between."""
SETTLE_SECONDS = 11
"""Two looks of the maintenance task, so that merges that are due have been made."""
SESSIONS_READ = 5
POOL_EVENTS = 10_000
"""How many different events the largest load has: far more than are compressed together."""
COLUMNS = (
    Column("payload MB", "payload_mb", "{:,.1f}".format),
    Column("log bytes per payload byte", "log_ratio", "{:.2f}".format),
    Column("disk bytes per payload byte", "disk_ratio", "{:.2f}".format),
    Column("bucket bytes put per payload byte", "put_ratio", "{:.2f}".format),
    Column("bucket PUTs per GB", "puts_per_gb"),
    Column("server CPU µs per event", "cpu_us_per_event", "{:.0f}".format),
)
NOTE = (
    "Log bytes are the server's own counter (`log_written_bytes_total`). Disk bytes are the kernel's "
    "`write_bytes` of the server process: log, catalog and keys, in whole pages, so that a page that is "
    "synced ten times counts ten times. PUTs and their bytes were counted on the wire by a proxy between "
    "the server and a real S3 server (SeaweedFS): segments, checkpoints, manifests, merges and what is "
    "tried again."
)


@dataclass(frozen=True)
class Measured:
    """What the cost model needs to know, per flush, per payload byte and per session."""

    puts_per_flush: float
    gets_per_flush: float
    lists_per_flush: float
    gets_per_session_read: float
    kept_bytes_per_payload_byte: float
    cpu_seconds_per_event: float


def active_agents(fleet: Fleet) -> int:
    """Return how many agents work at the same time when their hours are spread evenly over the day."""
    return max(1, round(fleet.agents * fleet.hours_per_day / 24))


def events_per_flush(fleet: Fleet) -> int:
    """Return how many events the active agents write from one flush to the next."""
    return max(1, round(active_agents(fleet) * fleet.events_per_hour / 3600 * FLUSH_SECONDS))


def measure(place: Place, options: Options) -> tuple[Table, Measured]:
    """Let agents write to a server with a bucket on S3, in three ways, and read some sessions back."""
    with contextlib.ExitStack() as stack:
        proxy, bucket, environment = stack.enter_context(s3.counted_store(place))
        server = Server(place, "--bucket", bucket, environment=environment)
        stack.enter_context(server)
        load = _Load(server, proxy, active_agents(options.fleet), options.scaled(SETTLE_SECONDS, 1))
        alone = load.one_at_a_time(options.scaled(2_000, 200))
        minutes, per_flush = load.minutes(options.scaled(72, 9), events_per_flush(options.fleet))
        kept = server.metrics()["segment_bytes"] / load.payload_bytes
        gets = load.cold_read()
        busy = load.at_once(options.scaled(150_000, 5_000))
    measured = Measured(
        puts_per_flush=per_flush.puts,
        gets_per_flush=per_flush.gets,
        lists_per_flush=per_flush.lists,
        gets_per_session_read=gets,
        kept_bytes_per_payload_byte=kept,
        cpu_seconds_per_event=(minutes.median("cpu_us_per_event") or 0) / 1e6,
    )
    return Table("Bytes and requests", COLUMNS, [alone, minutes, busy], NOTE), measured


@dataclass(frozen=True)
class PerFlush:
    """Requests to the bucket for one flush, its share of the merges included."""

    puts: float
    gets: float
    lists: float


class _Load:
    """Agents that write to one server, and what that has cost since the last look."""

    def __init__(self, server: Server, proxy: s3.CountingProxy, sessions: int, settle_seconds: float) -> None:
        self._server = server
        self._proxy = proxy
        self._settle_seconds = settle_seconds
        self._agents = agents.Agents()
        self._paths = [f"/v1/stream/agents/{number}" for number in range(sessions)]
        self.payload_bytes = 0
        feeding.send(server.url, map(feeding.put, self._paths))
        server.flush()

    def one_at_a_time(self, events: int) -> Result:
        """Append one event after the other: each has a sync of its own."""
        with self._looking("one event at a time, not flushed", flush=False) as result:
            self._append(self._agents.events(events), lanes=1)
        return result

    def minutes(self, count: int, events: int) -> tuple[Result, PerFlush]:
        """Append what the fleet writes in a minute, flush, and again."""
        self._server.flush()
        time.sleep(self._settle_seconds)
        before = self._proxy.counted()
        name = f"{len(self._paths)} agents at once, {events:,} events per flush, {count} flushes"
        with self._looking(name, flush=True) as result:
            for _ in range(count):
                begin = time.monotonic()
                self._append(self._agents.events(events), lanes=16)
                self._server.flush()
                time.sleep(max(0.0, CYCLE_SECONDS - (time.monotonic() - begin)))
            time.sleep(self._settle_seconds)
        sent = self._proxy.counted().since(before)
        return result, PerFlush(sent.puts / count, sent.gets / count, sent.lists / count)

    def at_once(self, events: int) -> Result:
        """Append as fast as it goes, 20 events per request; flushes happen by size."""
        with self._looking("64 connections, 20 events per request, flushed by size", flush=True) as result:
            pool = self._agents.events(min(events, POOL_EVENTS))
            again = list(itertools.islice(itertools.cycle(pool), events))
            self._append(agents.batched(again, 20), lanes=64)
            self._server.flush()
            time.sleep(self._settle_seconds)
        return result

    def cold_read(self) -> float:
        """Return how many GETs it takes to read one session by a server that has just started."""
        gets = []
        for path in self._paths[:SESSIONS_READ]:
            self._server.restart()
            before = self._proxy.counted()
            with Reader(self._server.url) as reader:
                reader.catch_up(path)
            gets.append(self._proxy.counted().since(before).gets)
        return sum(gets) / len(gets)

    def _append(self, bodies: "Iterator[bytes] | list[bytes]", lanes: int) -> None:
        turn = itertools.cycle(self._paths)
        feeding.send(self._server.url, (feeding.post(next(turn), body) for body in bodies), lanes=lanes)

    @contextlib.contextmanager
    def _looking(self, name: str, *, flush: bool) -> Iterator[Result]:
        """Note what the block cost."""
        server, result = self._server, Result(name)
        before, counted = server.metrics(), self._proxy.counted()
        written, cpu = server.written_bytes(), server.cpu_seconds()
        yield result
        after, sent = server.metrics(), self._proxy.counted().since(counted)
        payload = after["append_bytes_total"] - before["append_bytes_total"]
        events = after["records_total"] - before["records_total"]
        self.payload_bytes += int(payload)
        figures = {
            "payload_mb": payload / 1e6,
            "log_ratio": (after["log_written_bytes_total"] - before["log_written_bytes_total"]) / payload,
            "disk_ratio": (server.written_bytes() - written) / payload,
            "cpu_us_per_event": (server.cpu_seconds() - cpu) / events * 1e6,
        }
        if flush:
            figures |= {"put_ratio": sent.put_bytes / payload, "puts_per_gb": sent.puts / payload * 1e9}
        result.rounds.append(figures)
        say(f"{name}: {figures}")
