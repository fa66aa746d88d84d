"""A client that writes down every call it makes, for the history's checker."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from durable_sessions.testing.history import (
    Answered,
    AppendAcknowledged,
    AppendOperation,
    CallRefused,
    CreateOperation,
    DeleteOperation,
    Done,
    Outcome,
    ProducerNumbers,
    ReadOperation,
    RecordedCall,
    Recorder,
    Unknown,
)
from tests.support.wire import Answer, Connection, UnansweredError, UnsentError

ROOT = "/v1/stream/"
JSON = {"Content-Type": "application/json"}
RETRY_SECONDS = 0.05
NOTHING_DONE = frozenset(
    {
        "overloaded",
        "shutting_down",
        "partition_stopped",
        "partition_unavailable",
        "partition_moved",
        "ownership_unproven",
        "keys_unproven",
        "cold_read_failed",
        "bucket_failed",
        "bucket_denied",
    }
)
"""Codes of a server that cannot do it now and did nothing; after ``outcome_unknown`` nobody knows."""

_MESSAGE = "message"


def offset_text(position: int) -> str:
    """Return a position as the wire has it."""
    return f"{0:016d}_{position:016d}"


class Client:
    """Makes one call after the other under its name; what it does not know the outcome of is Unknown."""

    def __init__(self, name: str, port: int, recorder: Recorder, answer_seconds_max: float) -> None:
        self.name = name
        self._connection = Connection(port, answer_seconds_max)
        self._tail = Connection(port, answer_seconds_max)
        self._recorder = recorder

    def close(self) -> None:
        """Let the connections go."""
        self._connection.close()
        self._tail.close()

    async def create(
        self, path: str, source: str | None = None, anchor: int = 0, *, ttl_seconds: int | None = None
    ) -> Outcome:
        """Create a stream, or a fork of another; one with a TTL must be used often enough to stay."""
        headers = dict(JSON)
        if ttl_seconds is not None:
            headers["Stream-TTL"] = str(ttl_seconds)
        if source is not None:
            headers |= {"Stream-Forked-From": ROOT + source, "Stream-Fork-Offset": offset_text(anchor)}

        async def perform() -> Outcome:
            answer = await self._send("PUT", path, headers)
            return _failure(answer) or Done()

        return await self._recorder.record(self.name, path, CreateOperation(source, anchor), perform)

    async def append(
        self,
        path: str,
        values: tuple[str, ...],
        producer: ProducerNumbers | None = None,
        *,
        close: bool = False,
    ) -> Outcome:
        """Append messages, close the stream, or both."""
        headers = dict(JSON)
        if producer is not None:
            numbers = {"Producer-Epoch": str(producer.epoch), "Producer-Seq": str(producer.seq)}
            headers |= {"Producer-Id": producer.id, **numbers}
        if close:
            headers["Stream-Closed"] = "true"

        async def perform() -> Outcome:
            answer = await self._send("POST", path, headers, _body(values, producer))
            if (failure := _failure(answer)) is not None:
                return failure
            assert answer is not None
            return AppendAcknowledged(_next(answer), duplicate=producer is not None and answer.status == 204)

        return await self._recorder.record(self.name, path, AppendOperation(values, producer, close), perform)

    async def read(self, path: str, offset: int, *, live: bool = False) -> Outcome:
        """Read from a position on; a live read waits if there is nothing yet."""
        query = f"?offset={offset_text(offset)}" + ("&live=long-poll" if live else "")

        async def perform() -> Outcome:
            answer = await self._send("GET", path + query)
            if (failure := _failure(answer)) is not None:
                return failure
            assert answer is not None
            return Answered(
                _values(answer.json()) if answer.status == 200 else (),
                _next(answer),
                "stream-up-to-date" in answer.headers,
                "stream-closed" in answer.headers,
            )

        return await self._recorder.record(self.name, path, ReadOperation(offset), perform)

    async def delete(self, path: str) -> Outcome:
        """Delete a stream."""

        async def perform() -> Outcome:
            return _failure(await self._send("DELETE", path)) or Done()

        return await self._recorder.record(self.name, path, DeleteOperation(), perform)

    async def follow(self, path: str, offset: int) -> AsyncIterator[Answered]:
        """Follow a stream by server-sent events until the connection ends; each event is written down."""
        opened = time.monotonic()
        target = f"{ROOT}{path}?offset={offset_text(offset)}&live=sse"
        values: tuple[str, ...] = ()
        try:
            answer = await self._tail.begin("GET", target)
        except (UnsentError, UnansweredError):
            return
        if answer.status != 200:
            self._tail.close()
            return
        async for event, data in _events(self._tail.chunks()):
            if event == "data":
                values = _values(data)
                continue
            said = Answered(
                values,
                int(data["streamNextOffset"][17:]),
                data.get("upToDate", False),
                data.get("streamClosed", False),
            )
            call = RecordedCall(self.name, path, ReadOperation(offset), opened, time.monotonic(), said)
            self._recorder.calls.append(call)
            offset, values = said.next, ()
            yield said

    async def _send(
        self, method: str, path: str, headers: dict[str, str] | None = None, content: bytes = b""
    ) -> Answer | None:
        """Return the answer, None if there is none; what could not even be sent is sent again."""
        while True:
            try:
                return await self._connection.request(method, ROOT + path, headers, content)
            except UnsentError:
                await asyncio.sleep(RETRY_SECONDS)
            except UnansweredError:
                return None


def _failure(answer: Answer | None) -> CallRefused | Unknown | None:
    """Return what an answer means if it is not a success."""
    if answer is None:
        return Unknown()
    if answer.status < 400:
        return None
    assert answer.status != 503 or answer.headers.get("retry-after"), answer
    code = answer.json()["error"]["code"]
    if answer.status < 500 or code in NOTHING_DONE:
        return CallRefused(code)
    assert code == "outcome_unknown", f"the server met a fault of its own: {answer}"
    return Unknown()


def _body(values: tuple[str, ...], producer: ProducerNumbers | None) -> bytes:
    """Return the body of an append; of a single message, one that the server takes past its parser."""
    if len(values) == 1 and producer is None:
        return json.dumps({_MESSAGE: values[0]}).encode()
    return json.dumps(values).encode() if values else b""


def _values(messages: list[Any]) -> tuple[str, ...]:
    """Return what messages say, whichever way they were appended."""
    return tuple(message[_MESSAGE] if isinstance(message, dict) else message for message in messages)


def _next(answer: Answer) -> int:
    return int(answer.headers["stream-next-offset"][17:])


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Any]]:
    """Yield the name of each event and what its data says; every event here has one line of data."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n\n")
        for event in whole:
            name, _, data = event.partition(b"\n")
            yield name.removeprefix(b"event:").strip().decode(), json.loads(data.removeprefix(b"data:"))
