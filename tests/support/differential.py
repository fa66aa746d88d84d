"""The same requests to servers with one partition and with several: their answers must be equal.

What may differ is what a server makes up: ids, incarnations and signatures. Each distinct one is replaced by
its place in the order in which they appear, ``<0>`` first, so that answers are equal if the same things are
the same in them. Requests can use what was made up by the same words.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from durable_sessions.clock import ManualClock
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.waiting import PATIENCE_SECONDS

_MADE_UP = re.compile(
    r"\b(?:sesn|agent|env|sevt|evt|sthr|sesrsc|w|key|req)_[A-Za-z0-9_-]{8,}|\b[0-9a-f]{12}\b"
)
_PLACE = re.compile(r"<([0-9]+)>")
_HEADERS_OF_ONE_ANSWER = frozenset(("date", "request-id", "x-request-id", "content-length", "stream-cursor"))


class Rival:
    """One of the servers that are compared, and what it has made up so far.

    ``kept`` is for the test: what it needs of this server's answers later on.
    """

    def __init__(self, partitions: int, server: LocalServer, client: httpx2.AsyncClient) -> None:
        self.partitions = partitions
        self.server = server
        self.client = client
        self.kept: dict[str, str] = {}
        self._made_up: dict[str, str] = {}
        self._all: list[str] = []

    def _sent(self, given: Any) -> Any:
        """Return what is sent to this server: with what it has made up."""
        text = json.dumps(given)
        return json.loads(_PLACE.sub(lambda found: self._all[int(found[1])], text))

    def text(self, text: str) -> str:
        """Return a text with what the server made up replaced."""
        return _MADE_UP.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        return self._place(found[0])

    def _place(self, made_up: str) -> str:
        if made_up not in self._made_up:
            self._made_up[made_up] = f"<{len(self._all)}>"
            self._all.append(made_up)
        return self._made_up[made_up]

    async def ask(self, method: str, path: str, **given: Any) -> tuple[int, dict[str, str], Any]:
        """Send a request; return status, headers and body with what the server made up replaced."""
        given = {name: value if name == "content" else self._sent(value) for name, value in given.items()}
        answer = await self.client.request(method, self._sent(path), **given)
        text = self.text(answer.text).replace(self.server.url, "{url}")
        headers = {
            name: self._place(value) if name == "etag" else self.text(value).replace(self.server.url, "{url}")
            for name, value in sorted(answer.headers.items())
            if name not in _HEADERS_OF_ONE_ANSWER
        }
        try:
            return answer.status_code, headers, _sorted(json.loads(text))
        except ValueError:
            return answer.status_code, headers, text


def _sorted(body: Any) -> Any:
    """Return a body with the streams of a subscription in one order: which one, nobody promises."""
    if isinstance(body, dict) and isinstance(body.get("streams"), list):
        body["streams"].sort(key=lambda one: str(one["path"]))
    return body


class Rivals:
    """Servers with different numbers of partitions, one clock, and one story."""

    def __init__(self, clock: ManualClock, servers: Sequence[Rival]) -> None:
        self.clock = clock
        self.servers = servers

    async def ask(self, method: str, path: str, **given: Any) -> tuple[int, dict[str, str], Any]:
        """Send a request to all, require the same answer of all, and return it."""
        self.clock.advance(1)
        answers = [(rival.partitions, await rival.ask(method, path, **given)) for rival in self.servers]
        (_, expected), *others = answers
        for partitions, answer in others:
            assert answer == expected, f"{method} {path} with {partitions} partitions"
        return expected

    async def restart(self) -> None:
        """Stop and start all servers."""
        for rival in self.servers:
            await rival.server.restart()

    async def flush(self) -> None:
        """Flush all servers."""
        for rival in self.servers:
            assert (await rival.client.post("/v1/admin/flush")).is_success


@asynccontextmanager
async def rivals(
    directory: Path, counts: Sequence[int] = (1, 2, 3), **settings: Any
) -> AsyncIterator[Rivals]:
    """Start a server for each number of partitions; the others are compared with the first."""
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        servers = []
        for count in counts:
            server = await stack.enter_async_context(
                local_server(directory / str(count), clock=clock, partitions=count, **settings)
            )
            client = httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS)
            servers.append(Rival(count, server, await stack.enter_async_context(client)))
        yield Rivals(clock, servers)
