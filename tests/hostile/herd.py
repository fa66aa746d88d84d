"""A server's data at scale: a hundred thousand streams, and the largest of all that clients may make."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from durable_sessions.access.key import KeyDocument, digest
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, KIB, MIB
from durable_sessions.managed_agents import agents, environments
from durable_sessions.managed_agents.agents import AGENTS, AgentBody
from durable_sessions.managed_agents.environments import ENVIRONMENTS, EnvironmentBody
from durable_sessions.managed_agents.object_kind import Kind
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.node.node import Node
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions import drafts
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.streams import offsets
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated, StreamDescribed
from durable_sessions.streams.stream import SYSTEM_WORKSPACE
from durable_sessions.times import rfc3339

WORKSPACE = "default"
SESSIONS = 80_000
PLAIN_STREAMS = 20_000
FORKS = 1_000
LONG_EVENTS = 60_000
THREADS = 1_000
LARGE_SESSIONS = 120
LARGE_AGENTS = 4
SMALL_AGENTS = 400
KEYS = 3_000
MORTALS = 3_000
ARTIFACT = b"\x00\x01\x02\x03" * (16 * MIB)
ARTIFACT_DIGEST = hashlib.sha256(ARTIFACT).hexdigest()
AT_A_TIME = 2_000

_JSON = "application/json"
_Made = Iterator[list[Effect]]


class Herd:
    """Makes the data through the partition: a request for each would take minutes."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._partition = node.engine.partition
        self._clock, self._ids = SystemClock(), RandomIds()
        self._sessions = Sessions(self._partition, self._clock, self._ids, DEFAULT_LIMITS, ONLY_PARTITION)

    async def make(self) -> None:
        """Make everything, and flush it."""
        await self._streams(_session, SESSIONS)
        await self._streams(_plain, PLAIN_STREAMS)
        await self._streams(_mortal, MORTALS)
        await self._node.engine.flusher.flush_all()
        await self._long_session()
        await self._forks()
        await self._large_documents()
        await self._streams(_key, KEYS)
        await self._node.engine.flusher.flush_all()

    async def _streams(self, made: Callable[[int, int, int], list[Effect]], count: int) -> None:
        for begin in range(0, count, AT_A_TIME):
            numbers = range(begin, min(begin + AT_A_TIME, count))
            await self._partition.commit(
                lambda state, now_ms, numbers=numbers: (  # type: ignore[misc]
                    [
                        effect
                        for at, number in enumerate(numbers)
                        for effect in made(state.next_id + at, number, now_ms)
                    ],
                    None,
                )
            )

    async def _long_session(self) -> None:
        key = session_key(WORKSPACE, "long")
        agent = msgspec.json.encode(
            {"id": "agent_long", "type": "agent", "version": 1, "name": "long", "system": "s" * 200 * KIB}
        )
        await self._sessions.create(
            key, NewSession(Record(agent=msgspec.Raw(agent), title="long"), "herd", []), 0
        )
        events = (_long_event(number) for number in range(LONG_EVENTS))
        while some := list(islice(events, 1_000)):
            batch = drafts.parse(b"[%b]" % b",".join(some), DEFAULT_LIMITS)
            await self._sessions.append(key, Batch(batch, "herd", Append(b"", _JSON)), 0)

    async def _forks(self) -> None:
        source = self._partition.peek(session_key(WORKSPACE, "long"))
        assert source is not None
        parent = source.stream.id

        def made(stream: int, number: int, now_ms: int) -> list[Effect]:
            return [
                StreamCreated(
                    stream, WORKSPACE, f"sessions/fork-{number:05d}", _JSON, now_ms, parent=parent, base=50
                )
            ]

        await self._streams(made, FORKS)

    async def _large_documents(self) -> None:
        registered_agents = self._registry(AGENTS)
        registered_environments = self._registry(ENVIRONMENTS)
        for number in range(SMALL_AGENTS):
            body = AgentBody(name=f"agent {number}", model="m")
            await registered_agents.create(WORKSPACE, agents.new(body))
        rows = [{"type": "custom", "name": f"tool {n}", "text": "x" * 60} for n in range(70_000)]
        for number in range(LARGE_AGENTS):
            agent = agents.new(AgentBody(name=f"large {number}", model="m", tools=rows))
            await registered_agents.create(WORKSPACE, agent)
            packages = {"packages": {"pip": [f"package-{n}-{'x' * 50}" for n in range(100_000)]}}
            environment = environments.new(EnvironmentBody(name=f"large {number}", config=packages))
            await registered_environments.create(WORKSPACE, environment)
        for number in range(LARGE_SESSIONS):
            metadata = {f"key-{n}": msgspec.Raw(b'"%d %b"' % (n, b"v" * 200)) for n in range(1_000)}
            said = Record(title=f"large {number}", metadata=metadata)
            await self._sessions.create(
                session_key(WORKSPACE, f"large-{number:04d}"), NewSession(said, "herd", []), 0
            )

    def _registry(self, kind: Kind[Any]) -> Registry:
        """Return a registry that takes documents of any size, as there was a time when all did."""
        limits = replace(DEFAULT_LIMITS, registered_document_bytes_max=16 * MIB)
        turns = self._sessions.scans.turns
        return Registry(self._partition, self._clock, self._ids, limits, turns, kind)


def _session(stream: int, number: int, now_ms: int) -> list[Effect]:
    name = f"s-{number:06d}"
    said = Record(
        agent=msgspec.Raw(b'{"id":"agent_%d","type":"agent","version":%d}' % (number % 500, number % 3 + 1)),
        title=f"Session {number}",
        metadata={"team": msgspec.Raw(b'"team-%d"' % (number % 50)), "ticket": msgspec.Raw(b'"%d"' % number)},
    )
    attributes: dict[str, bytes | None] = {"session": said.encode()}
    if number % 20 == 0:
        attributes["archived"] = str(now_ms).encode()
    event = (
        f'{{"id":"{name}-1","offset":"{offsets.encode(0)}","type":"user.message","created_at":"{rfc3339(now_ms)}",'
        f'"content":[{{"type":"text","text":"please look at ticket {number} word{number % 97}"}}]}},'
    ).encode()
    closed = number % 33 == 0
    return [
        StreamCreated(stream, WORKSPACE, f"sessions/{name}", _JSON, now_ms),
        StreamDescribed(stream, now_ms, attributes),
        RecordsAppended(stream, 0, now_ms, (len(event),), None, None, closed, event),
    ]


def _plain(stream: int, number: int, now_ms: int) -> list[Effect]:
    return [StreamCreated(stream, WORKSPACE, f"plain/{number:06d}", _JSON, now_ms)]


def _mortal(stream: int, number: int, now_ms: int) -> list[Effect]:
    return [StreamCreated(stream, WORKSPACE, f"mortal/{number:06d}", _JSON, now_ms, ttl_seconds=3600)]


def _key(stream: int, number: int, now_ms: int) -> list[Effect]:
    document = KeyDocument(
        id=f"key_{number:06d}",
        workspace=WORKSPACE,
        principal=f"worker {number}",
        role="writer",
        digest=digest(str(number).encode()).hex(),
        created_at_ms=now_ms,
        created_by="herd",
    )
    return [
        StreamCreated(stream, SYSTEM_WORKSPACE, f"keys/{document.id}", _JSON, now_ms),
        StreamDescribed(stream, now_ms, {"key": msgspec.json.encode(document)}),
    ]


def _long_event(number: int) -> bytes:
    if number % 10 == 3:
        return b'{"type":"agent.tool_use","id":"call-%d","name":"bash","input":{"command":"ls %d"}}' % (
            number,
            number,
        )
    thread = b"" if number % 7 else b',"session_thread_id":"sthr_%d"' % (number // 7 % THREADS)
    return b'{"type":"agent.message","content":[{"type":"text","text":"%b %d"}]%b}' % (
        b"word " * 25,
        number,
        thread,
    )
