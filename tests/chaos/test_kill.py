"""``kill -9`` under load: what was acknowledged is there, once, at its offset."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from tests.support.process import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

JSON = {"Content-Type": "application/json"}
ROUNDS = 4
WRITERS = 12
STREAMS = 4


@dataclass
class Writer:
    """One exactly-once producer that retries whatever it does not know the outcome of."""

    name: str
    stream: str
    seq: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)

    async def run(self, client: httpx2.AsyncClient, stop: asyncio.Event) -> None:
        while not stop.is_set():
            headers = {**JSON, "Producer-Id": self.name, "Producer-Epoch": "0", "Producer-Seq": str(self.seq)}
            try:
                answer = await client.post(
                    self.stream, headers=headers, content=f'["{self.name}",{self.seq}]'.join("[]")
                )
            except httpx2.TransportError:
                await asyncio.sleep(0.01)
                continue
            if answer.status_code in (200, 204):
                if answer.status_code == 200:
                    self.acknowledged[self.seq] = int(answer.headers["stream-next-offset"][17:]) - 1
                self.seq += 1
            else:
                assert answer.status_code == 503, answer.text
                await asyncio.sleep(0.01)


@dataclass
class Deleter:
    """Creates and deletes streams, and remembers which deletes were acknowledged."""

    deleted: list[str] = field(default_factory=list)
    created: int = 0

    async def run(self, client: httpx2.AsyncClient, stop: asyncio.Event) -> None:
        while not stop.is_set():
            path = f"/brief-{self.created}"
            self.created += 1
            try:
                await client.put(path, headers=JSON, content="[1]")
                if (await client.delete(path)).status_code == 204:
                    self.deleted.append(path)
            except httpx2.TransportError:
                await asyncio.sleep(0.01)


async def read_all(client: httpx2.AsyncClient, stream: str) -> AsyncIterator[object]:
    offset = "-1"
    while True:
        answer = await client.get(f"{stream}?offset={offset}")
        for item in answer.json():
            yield item
        offset = answer.headers["stream-next-offset"]
        if "stream-up-to-date" in answer.headers:
            return


async def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    chance = random.Random(20)
    server = ServerProcess(tmp_path / "data")
    writers = [Writer(f"w{number}", f"/s{number % STREAMS}") for number in range(WRITERS)]
    deleter = Deleter()
    with server:
        base = server.url + "/v1/stream"
        for number in range(STREAMS):
            httpx2.put(f"{base}/s{number}", headers=JSON)
        async with httpx2.AsyncClient(base_url=base, timeout=10) as client:
            stop = asyncio.Event()
            tasks = [asyncio.create_task(writer.run(client, stop)) for writer in writers]
            tasks.append(asyncio.create_task(deleter.run(client, stop)))
            for _ in range(ROUNDS):
                await asyncio.sleep(0.4 + chance.random())
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(0.3)
            stop.set()
            await asyncio.gather(*tasks)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await check(client, writers, deleter)
    assert sum(len(writer.acknowledged) for writer in writers) > 200, "the load was real"


async def check(client: httpx2.AsyncClient, writers: list[Writer], deleter: Deleter) -> None:
    for number in range(STREAMS):
        items = [item async for item in read_all(client, f"/s{number}")]
        for writer in writers:
            if writer.stream != f"/s{number}":
                continue
            own = [(position, item[1]) for position, item in enumerate(items) if item[0] == writer.name]  # type: ignore[index]
            assert [seq for _, seq in own] == list(range(writer.seq)), "each once, in order, none missing"
            at = {seq: position for position, seq in own}
            assert all(at[seq] == position for seq, position in writer.acknowledged.items())
    assert deleter.deleted
    for path in deleter.deleted:
        assert (await client.head(path)).status_code == 404
