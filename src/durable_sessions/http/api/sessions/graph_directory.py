"""Everything of a workspace that a graph may lead to, asked of all partitions.

A partition or an index that cannot answer makes the whole graph unavailable: one that is smaller than it
should be would be taken for the truth.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import ArtifactNotFoundError, ArtifactRedactedError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.api.sessions.event_referrers import EventReferrers, HeldEvent, ReferTarget
from durable_sessions.http.carrier.message import Request
from durable_sessions.sessions.event_directory import ArtifactState, Referral, Referrals
from durable_sessions.sessions.event_walks import write_name
from durable_sessions.sessions.memory.directory import ReplacedWrites, ScopeDirectory
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.placed_events import EventQuestion, PlacedEvent, PlacedEvents
from durable_sessions.storage.artifacts import Artifacts

_FIND, _HOLD, _REFER = b"/internal/graph/find", b"/internal/graph/hold", b"/internal/graph/refer"
_DIGEST = re.compile("[0-9a-f]{64}", re.ASCII)


class GraphDirectory:
    """Looks events up in all partitions, artifacts in the bucket, and memories where their scopes are."""

    def __init__(
        self,
        placed: PlacedEvents,
        referrers: EventReferrers,
        artifacts: Artifacts,
        memory: ScopeDirectory,
        neighbours: Neighbours,
    ) -> None:
        self._placed = placed
        self._referrers = referrers
        self._artifacts = artifacts
        self._memory = memory
        self._neighbours = neighbours
        self.handlers: dict[bytes, Callable[[Request, Caller], Awaitable[object]]] = {
            _FIND: self._answer_find,
            _HOLD: self._answer_hold,
            _REFER: self._answer_refer,
        }

    async def find(self, workspace: str, asked: Sequence[EventQuestion]) -> list[PlacedEvent | None]:
        """Look events up; None for those that are nowhere."""
        found = await self._placed.find(workspace, asked)
        left = [number for number, one in enumerate(found) if one is None]
        questions = [asked[number] for number in left]
        for answers in await self._ask_others(workspace, _FIND, questions, list[PlacedEvent | None]):
            for number, answer in zip(left, answers[1], strict=True):
                found[number] = found[number] or answer
        return found

    async def artifact(self, workspace: str, digest: str) -> ArtifactState:
        """Say what became of an artifact."""
        if not _DIGEST.fullmatch(digest):
            return "missing"
        try:
            await self._artifacts.find(workspace, digest)
        except ArtifactRedactedError:
            return "redacted"
        except ArtifactNotFoundError:
            return "missing"
        return "stored"

    async def replaced(
        self, workspace: str, scope: str, writes: Sequence[NamedEvent]
    ) -> list[ReplacedWrites]:
        """Return what writes of a memory scope replaced, and which ones replaced them."""
        return await self._memory.replaced(workspace, scope, writes)

    async def referring(self, workspace: str, events: Sequence[PlacedEvent]) -> Referrals:
        """Return the events that lead to these ones."""
        own = self._neighbours.own.number
        questions = [EventQuestion(one.via.session, one.via.life, one.id) for one in events]
        held = [(own, one) for one in await self._referrers.hold(workspace, questions)]
        left = [number for number, (_, one) in enumerate(held) if one is None]
        unknown = [questions[number] for number in left]
        for partition, answers in await self._ask_others(workspace, _HOLD, unknown, list[HeldEvent | None]):
            for number, answer in zip(left, answers, strict=True):
                if answer is not None:
                    held[number] = partition, answer
        later = await self._replacing(workspace, events)
        is_complete, found = True, list[Referral]()
        for number, (place, one) in enumerate(held):
            if one is not None:  # else its session was deleted just now
                is_complete &= one.is_complete
                found += [Referral(event, number, "supersedes") for event in one.replaced_by]
                if number in later:
                    held[number] = place, one._replace(target=one.target._replace(later=later[number]))
        asked = {number: _targets(held, number) for number in (own, *self._neighbours.others)}
        answers = [await self._referrers.refer(workspace, asked.pop(own))]
        reads = [self._read(number, workspace, _REFER, one, Referrals) for number, one in asked.items()]
        answers += await asyncio.gather(*reads)
        for answer in answers:
            found += answer.found
            is_complete &= answer.is_complete
        return Referrals(found, is_complete, any(answer.more for answer in answers))

    async def _replacing(self, workspace: str, events: Sequence[PlacedEvent]) -> dict[int, list[NamedEvent]]:
        """Return the later writes that replaced some, by the number of the write."""
        scopes: dict[str, list[int]] = {}
        for number, event in enumerate(events):
            if event.scope is not None:
                scopes.setdefault(event.scope, []).append(number)
        later: dict[int, list[NamedEvent]] = {}
        for scope, numbers in scopes.items():
            names = [write_name(events[number]) for number in numbers]
            replaced = await self._memory.replaced(workspace, scope, names)
            later |= {number: one.after for number, one in zip(numbers, replaced, strict=True) if one.after}
        return later

    # The others -------------------------------------------------------------------------

    async def _ask_others(
        self, workspace: str, path: bytes, asked: list[EventQuestion], answer: Any
    ) -> list[tuple[int, Any]]:
        """Ask all other partitions what this one does not have; return their numbers and answers."""
        others = self._neighbours.others if asked else []
        reads = (self._read(number, workspace, path, asked, answer) for number in others)
        return list(zip(others, await asyncio.gather(*reads), strict=True))

    async def _read(self, partition: int, workspace: str, path: bytes, asked: object, answer: Any) -> Any:
        return await self._neighbours.read(partition, path, on_behalf_of(workspace), asked, answer)

    async def _answer_find(self, request: Request, caller: Caller) -> object:
        return await self._placed.find(caller.workspace, _QUESTIONS.decode(request.body))

    async def _answer_hold(self, request: Request, caller: Caller) -> object:
        return await self._referrers.hold(caller.workspace, _QUESTIONS.decode(request.body))

    async def _answer_refer(self, request: Request, caller: Caller) -> object:
        return await self._referrers.refer(caller.workspace, _TARGETS.decode(request.body))


_QUESTIONS = msgspec.msgpack.Decoder(list[EventQuestion])
_TARGETS = msgspec.msgpack.Decoder(list[ReferTarget])


def _targets(held: Sequence[tuple[int, HeldEvent | None]], partition: int) -> list[ReferTarget]:
    """Return what a partition is asked for; numbers of streams mean something in their own partition only."""
    targets = []
    for place, one in held:
        if one is None:
            targets.append(ReferTarget([], [], []))
        elif place == partition:
            targets.append(one.target)
        else:
            targets.append(one.target._replace(streams=[]))
    return targets
