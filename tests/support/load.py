"""A load: concurrent clients with different habits, and the history of all they did."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from durable_sessions.testing.history import Answered, CallRefused, Outcome, Recorder
from tests.support.client import RETRY_SECONDS, Client
from tests.support.roles import CAST, MISSING, Known, Role, may_be_retried

PATIENCE_SECONDS = 120.0
"""Only to end a test that hangs; nothing is expected to take this long."""
SHARED_STREAMS = 4


class Load:
    """The clients of one server; the same seed makes the same choices, though not at the same times.

    If there are several ports, one for each node of a cluster, the clients are spread over them. All names of
    streams begin with ``prefix``, which must be new if there was another load on the same server.
    """

    def __init__(
        self,
        port: int | Sequence[int],
        seed: int,
        *,
        answer_seconds_max: float = 20.0,
        bytes_max: int = 40,
        ttl_seconds: int | None = None,
        prefix: str = "",
    ) -> None:
        self.recorder = Recorder(time.monotonic)
        self.known = Known([f"{prefix}shared-{number}" for number in range(SHARED_STREAMS)])
        self._prefix = prefix
        self._seed = seed
        self._bytes_max = bytes_max
        self._ports = [port] if isinstance(port, int) else list(port)
        self._answer_seconds_max = answer_seconds_max
        self._clients: list[Client] = []
        self._ttl_seconds = ttl_seconds

    @property
    def appended(self) -> int:
        """How many appends have been acknowledged."""
        return self.known.done["appended"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let all clients work for the length of a ``with`` block; one that meets the impossible ends it."""
        setter_up = self._client("setup")
        for path in self.known.shared:
            self.known.note(path, await setter_up.create(path, ttl_seconds=self._ttl_seconds))
        async with asyncio.TaskGroup() as group:
            roles = [self._role(kind, number) for number, kind in enumerate(CAST)]
            tasks = [(role, group.create_task(role.run())) for role in roles]
            yield
            await self._until_real()
            self.known.stopping = True
            working = {task: role for role, task in tasks if not role.endless}
            _, unfinished = await asyncio.wait(working, timeout=PATIENCE_SECONDS)
            assert not unfinished, "\n".join(self._last_calls(working[task]) for task in unfinished)
            for role, task in tasks:
                if role.endless:
                    task.cancel()

    def _last_calls(self, role: Role) -> str:
        """Say what a client did last, newest last."""
        calls = [call for call in self.recorder.calls if call.client == role.client.name]
        return f"{role.client.name} did not stop; its last calls: " + "; ".join(map(str, calls[-5:]))

    async def _until_real(self) -> None:
        """Wait until every habit has shown."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(self.known.done[kind.__name__] for kind in CAST):
                await asyncio.sleep(0.05)

    def refusals(self, code: str) -> int:
        """Return how many calls were refused with this code."""
        return sum(call.outcome == CallRefused(code) for call in self.recorder.calls)

    async def advance(self, appends: int = 30) -> None:
        """Wait until so many more appends have been acknowledged."""
        wanted = self.appended + appends
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.appended < wanted:
                await asyncio.sleep(0.01)

    async def read_all(self) -> None:
        """Read every stream from its beginning to its end: what nobody reads cannot be shown to be there."""
        reader = self._client("last")
        async with asyncio.timeout(PATIENCE_SECONDS):
            for path in self.known.tails:
                await self._read_whole(reader, path)

    def close(self) -> None:
        """Let the connections go."""
        for client in self._clients:
            client.close()

    @staticmethod
    async def _read_whole(reader: Client, path: str) -> None:
        position = 0
        while True:
            outcome: Outcome = await reader.read(path, position)
            if isinstance(outcome, Answered):
                position = outcome.next
                if outcome.up_to_date:
                    return
            elif isinstance(outcome, CallRefused) and outcome.code in MISSING:
                return
            else:
                assert may_be_retried(outcome), f"{path}: {outcome}"
                await asyncio.sleep(RETRY_SECONDS)

    def _client(self, name: str) -> Client:
        port = self._ports[len(self._clients) % len(self._ports)]
        client = Client(name, port, self.recorder, self._answer_seconds_max)
        self._clients.append(client)
        return client

    def _role(self, kind: type[Role], number: int) -> Role:
        name = f"{self._prefix}{kind.__name__.removesuffix('Role').lower()}-{number}"
        chance = random.Random(f"{self._seed} {name}")
        return kind(self._client(name), self.known, chance, self._bytes_max)
