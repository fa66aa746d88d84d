"""``python -m bench.subscribers URL COUNT``: many subscribers of one stream in one process.

Plain sockets and epoll; nothing is parsed but the time that each event carries. When an event arrived is
asked of the kernel (``SO_TIMESTAMPNS``), so that a busy client does not make a server look slow. Prints
``ready`` when all are subscribed. Then it is told on its input how many events were sent; it ends when all
of them have come, or some time later, and prints what came of it as JSON.
"""

import json
import re
import resource
import select
import socket
import struct
import sys
import time
from array import array
from urllib.parse import urlsplit

from bench.figures import percentile

CONNECT_SECONDS_MAX = 30.0
PIECE_BYTES = 64 * 1024
RUN_SECONDS_MAX = 55.0
"""Ours and the reference end a subscription after 60 seconds."""
LATE_SECONDS_MAX = 5.0
"""How long the last events may take after the writer has finished."""
_SO_TIMESTAMPNS = 35
_TIMESTAMP = struct.Struct("qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESTAMP.size)
_SENT = re.compile(rb'"sent_ns":(\d{19})')
_CARRY_BYTES = 32


class Subscriber:
    """One connection; keeps the end of what came last, in case an event is cut in two."""

    def __init__(self, host: str, port: int, target: str) -> None:
        self.socket = socket.create_connection((host, port), timeout=CONNECT_SECONDS_MAX)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._rest = b""

    def wait_for_head(self) -> None:
        """Return when the answer has begun, so that the subscription holds."""
        while b"event: control" not in self._rest:
            piece = self.socket.recv(PIECE_BYTES)
            if not piece:
                raise ConnectionError("the server closed a subscriber's connection")
            self._rest += piece
        if b" 200 " not in self._rest[:20]:
            raise ConnectionError(f"a subscriber was answered {self._rest[:80]!r}")
        self._rest = b""
        self.socket.setblocking(False)

    def receive(self, latencies_ms: "array[float]") -> int:
        """Note the latency of what has arrived; return the nanoseconds for which it has waited for us."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(PIECE_BYTES, _ANCILLARY_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            raise ConnectionError("the server closed a subscriber's connection")
        now_ns = time.time_ns()
        arrived_ns = _arrived_ns(ancillary) or now_ns
        text = self._rest + data
        end = 0
        for found in _SENT.finditer(text):
            latencies_ms.append((arrived_ns - int(found[1])) / 1e6)
            end = found.end()
        self._rest = text[max(end, len(text) - _CARRY_BYTES) :]
        return now_ns - arrived_ns


def follow(url: str, count: int) -> dict[str, float]:
    """Subscribe, receive until everything has come or the time is over, and return the figures."""
    _raise_file_limit(count + 64)
    parts = urlsplit(url)
    target = f"{parts.path}?offset=now&live=sse"
    subscribers = [Subscriber(str(parts.hostname), parts.port or 80, target) for _ in range(count)]
    for subscriber in subscribers:
        subscriber.wait_for_head()
    print("ready", flush=True)
    cpu, begin = time.process_time(), time.monotonic()
    latencies_ms, waited_ms, events = _receive(subscribers)
    share = (time.process_time() - cpu) / (time.monotonic() - begin)
    ordered = sorted(latencies_ms)
    waited = sorted(waited_ms)
    return {
        "delivered_percent": 100 * len(ordered) / (count * max(events, 1)),
        "p50_ms": percentile(ordered, 0.5) if ordered else float("nan"),
        "p99_ms": percentile(ordered, 0.99) if ordered else float("nan"),
        "max_ms": ordered[-1] if ordered else float("nan"),
        "client_cpu_percent": 100 * share,
        "client_wait_p99_ms": percentile(waited, 0.99) if waited else float("nan"),
    }


def _receive(subscribers: list[Subscriber]) -> tuple["array[float]", "array[float]", int]:
    """Return all latencies, how long each piece had waited for us, and how many events were sent."""
    latencies_ms, waited_ms, events = array("d"), array("d"), 0
    by_number = {subscriber.socket.fileno(): subscriber for subscriber in subscribers}
    writer = sys.stdin.fileno()
    poll = select.epoll()
    for number in (writer, *by_number):
        poll.register(number, select.EPOLLIN)
    deadline = time.monotonic() + RUN_SECONDS_MAX
    while time.monotonic() < deadline and (not events or len(latencies_ms) < events * len(subscribers)):
        for number, _ in poll.poll(0.5):
            if number == writer:
                events = int(sys.stdin.readline())
                poll.unregister(writer)
                deadline = min(deadline, time.monotonic() + LATE_SECONDS_MAX)
            else:
                waited_ms.append(by_number[number].receive(latencies_ms) / 1e6)
    poll.close()
    return latencies_ms, waited_ms, events


def _arrived_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESTAMP.unpack(data[: _TIMESTAMP.size])
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return 0


def _raise_file_limit(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


if __name__ == "__main__":
    print(json.dumps(follow(sys.argv[1], int(sys.argv[2]))), flush=True)
