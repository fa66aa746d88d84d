"""Clients that behave, while others do not: every answer they get must be right and in time."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx2

from tests.hostile.stranger import PATIENCE_SECONDS


def offset(position: int) -> str:
    return f"0000000000000000_{position:016d}"


class Bystander:
    """Appends numbers to a stream of its own, reads each back, and follows the stream live."""

    def __init__(self, client: httpx2.AsyncClient, name: str) -> None:
        self._client = client
        self._path = f"/bystanders/{name}"
        self._name = name
        self.acknowledged = 0
        self.followed = 0

    async def create(self) -> None:
        answer = await self._client.put(self._path, headers={"Content-Type": "application/json"})
        assert answer.status_code == 201, answer.text

    async def write(self) -> None:
        """Append and read, for ever."""
        while True:
            number = self.acknowledged
            headers = {
                "Content-Type": "application/json",
                "Producer-Id": self._name,
                "Producer-Epoch": "0",
                "Producer-Seq": str(number),
            }
            answer = await self._client.post(self._path, headers=headers, content=str(number))
            assert answer.status_code == 200, answer.text
            assert answer.headers["stream-next-offset"] == offset(number + 1)
            self.acknowledged += 1
            answer = await self._client.get(f"{self._path}?offset={offset(number)}")
            assert answer.status_code == 200, answer.text
            assert answer.json() == [number]

    async def follow(self) -> None:
        """Follow the stream, for ever; each number comes once and in order."""
        while True:
            url = f"{self._path}?offset={offset(self.followed)}&live=sse"
            async with self._client.stream("GET", url) as answer:
                assert answer.status_code == 200
                async for line in answer.aiter_lines():
                    if line.startswith("data:["):
                        numbers = json.loads(line.removeprefix("data:"))
                        assert numbers == list(range(self.followed, self.followed + len(numbers)))
                        self.followed += len(numbers)

    async def check(self) -> None:
        """Everything acknowledged is there, once and in order; at most one more, whose answer we left."""
        numbers: list[int] = []
        while True:
            answer = await self._client.get(f"{self._path}?offset={offset(len(numbers))}")
            assert answer.status_code == 200, answer.text
            numbers += answer.json()
            if "stream-up-to-date" in answer.headers:
                break
        assert numbers == list(range(len(numbers)))
        assert self.acknowledged <= len(numbers) <= self.acknowledged + 1
        assert self.followed <= len(numbers)


class Crowd:
    """Some bystanders at work."""

    def __init__(self, bystanders: list[Bystander], tasks: list["asyncio.Task[None]"]) -> None:
        self._bystanders = bystanders
        self._tasks = tasks

    async def progress(self, steps: int = 3) -> None:
        """Wait until everyone has appended, read and followed some more."""
        wanted = [(one.acknowledged + steps, one.followed + steps) for one in self._bystanders]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._reached(wanted):
                self._raise_failure()
                await asyncio.sleep(0.01)
        self._raise_failure()

    def _reached(self, wanted: list[tuple[int, int]]) -> bool:
        return all(
            one.acknowledged >= acknowledged and one.followed >= followed
            for one, (acknowledged, followed) in zip(self._bystanders, wanted, strict=True)
        )

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()
                raise AssertionError("a bystander has stopped")


@contextlib.asynccontextmanager
async def crowd(
    url: str, count: int, names: str, headers: dict[str, str] | None = None
) -> AsyncIterator[Crowd]:
    """Let some bystanders work; at the end everyone must still get on, and nothing be lost."""
    pool = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(
        base_url=url + "/v1/stream", timeout=PATIENCE_SECONDS, limits=pool, headers=headers
    ) as client:
        bystanders = [Bystander(client, f"{names}-{number}") for number in range(count)]
        for one in bystanders:
            await one.create()
        tasks = [asyncio.create_task(work()) for one in bystanders for work in (one.write, one.follow)]
        try:
            those = Crowd(bystanders, tasks)
            yield those
            await those.progress()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for one in bystanders:
            await one.check()
