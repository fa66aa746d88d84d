"""Requests about a stream or session: each finds the partition that its name lives in.

That is the home of the name, or where home's note says. A router remembers notes; one that is out of date is
refused by the partition that it names, and home is asked once more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import LinkDownError
from durable_sessions.http.api import fork_sources
from durable_sessions.http.api.placement_operations import GIVE_UP, PLACE, WHERE, NameAsked, NameFound
from durable_sessions.http.carrier.message import Answer, HandOver, Later, NamedStream, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.node.partitions import Partitions, answered
from durable_sessions.node.placement_gate import placement_in
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.placed_names import NoteCache
from durable_sessions.streams.placements import AT_HOME, NO_NOTE, Placement
from durable_sessions.streams.stream import Key

_TRIES = 8
"""How often a request is sent elsewhere: each time only if others have moved the name meanwhile."""
_FOUND = msgspec.msgpack.Decoder(NameFound)
_REFUSED = 400
_UNAVAILABLE = 503
_MOVED = b"partition_moved"


class _NoAnswerError(Exception):
    """A partition did not answer a question about a name."""


class NamedRequests:
    """Asks the partition that a name lives in; ``of`` is how many there are."""

    def __init__(self, partitions: Partitions, of: int, limits: Limits) -> None:
        self._partitions = partitions
        self._of = of
        self._notes = NoteCache(limits.placement_cache_bytes_max)

    def ask(self, name: Key, home: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request about a name, synchronously where possible."""
        if request.method == b"PUT" and fork_sources.HEADER in request.headers:
            return self._guarded(self._fork(name, home, request), request)
        known = self._notes.get(name) if len(self._notes) else None
        at = home if known is None else self._address(name, home, known, request)
        answer = self._partitions.route(at, request)
        # What needs no task is answered by this process, and is the answer to the request.
        if type(answer) is Later or isinstance(answer, Answer):
            return answer
        if type(answer) is HandOver:  # the other process has a router of its own
            return HandOver(answer.give, partial(self._forward, answer.forward, name, home, request))
        return self._guarded(self._followed(answer, name, home, request), request)

    def _forward(
        self,
        forward: Callable[[], Answer | Awaitable[Answer]],
        name: Key,
        home: int,
        request: Request,
    ) -> Answer | Awaitable[Answer]:
        """Return the forwarded answer; it costs a task only if the name turns out to live elsewhere."""
        later = forward()
        if type(later) is not Later:
            return self._guarded(self._followed(answered(later), name, home, request), request)
        respond = later.respond

        def followed(asked: "asyncio.Future[Any]") -> Answer | Awaitable[Answer]:
            found = respond(asked)
            if type(found) is Response and found.status < _REFUSED:
                return found
            return self._guarded(self._followed(answered(found), name, home, request), request)

        return Later(later.future, followed)

    async def _guarded(self, answer: Awaitable[Answer], request: Request) -> Answer:
        try:
            return await answer
        except _NoAnswerError as error:
            return self._partitions.app.refuse(request, LinkDownError(reason=str(error)))

    async def _followed(self, answer: Awaitable[Answer], name: Key, home: int, request: Request) -> Answer:
        """Return the answer to a request, from wherever its name turns out to live."""
        for _ in range(_TRIES):
            found = await answer
            placement = placement_in(found)
            if placement is None and not _has_moved(found):
                return found
            shown = NO_NOTE if request.named is None else request.named.note
            if placement is None:
                at = self._forget(name, home, request)
            elif placement.note > NO_NOTE:
                at = self._address(name, home, placement, request)
            else:
                at = await self._asked_again(name, home, shown, request)
            answer = answered(self._partitions.ask(at, request))
        raise _NoAnswerError("the name is being moved")

    async def _asked_again(self, name: Key, home: int, refused: int, request: Request) -> int:
        """Return where a name lives whose note was refused.

        If home still has that note, a process died after the note was given up. Then nobody has the name, and
        home takes it back.
        """
        found = await self._found(home, WHERE, request, NameAsked(name.path))
        if found.placement is not None and found.placement.note == refused and not found.exists:
            found = await self._found(home, PLACE, request, NameAsked(name.path, AT_HOME, refused))
        if found.exists or found.placement is None:
            return self._forget(name, home, request)
        return self._address(name, home, found.placement, request)

    # Forks ------------------------------------------------------------------------------

    async def _fork(self, name: Key, home: int, request: Request) -> Answer:
        """Create a fork where its source is, after the home of its name has noted that."""
        caller, source = request.caller, fork_sources.source_path(request)
        living = None
        if source is not None and isinstance(caller, Caller) and caller.role >= Role.WRITER:
            living = await self._living(Key(name.workspace, source), request)
        if living is None:
            # Home refuses it, or has a stream of that name to compare the fork with.
            at = self._forget(name, home, request)
            return await self._followed(answered(self._partitions.ask(at, request)), name, home, request)
        wanted = AT_HOME if living == home else living
        given_up = NO_NOTE
        # Home places the name where the source is, unless it has noted another partition. That one must give
        # its note up first, which it refuses while it has a stream of the name. Other requests may do the
        # same meanwhile, so each step says what it is based on, and everything begins again if that changed.
        for _ in range(_TRIES):
            placed = await self._found(home, PLACE, request, NameAsked(name.path, wanted, given_up))
            placement = placed.placement
            if placement is not None and placement.partition not in (wanted, AT_HOME):
                asked = NameAsked(name.path, note=placement.note)
                if not (await self._found(placement.partition, GIVE_UP, request, asked)).exists:
                    given_up = placement.note
                    continue
            # A stream that has the name decides: it is the same fork, or the name is taken.
            at = home if placement is None else self._address(name, home, placement, request)
            answer = await answered(self._partitions.ask(at, request))
            if placement_in(answer) is None and not _has_moved(answer):
                return answer
            is_refused = placement is not None and placement.partition == wanted
            given_up = placement.note if placement is not None and is_refused else NO_NOTE
        raise _NoAnswerError("the name is being moved")

    async def _living(self, source: Key, request: Request) -> int | None:
        """Return the partition that has a stream, None if there is no such stream."""
        at = home_partition(*source, self._of)
        found = await self._found(at, WHERE, request, NameAsked(source.path))
        if not found.exists and found.placement is not None and found.placement.partition != AT_HOME:
            at = found.placement.partition
            found = await self._found(at, WHERE, request, NameAsked(source.path))
        return at if found.exists else None

    # Asking -----------------------------------------------------------------------------

    def _address(self, name: Key, home: int, placement: Placement, request: Request) -> int:
        """Return whom to ask about a placed name; the request shows the note."""
        if placement.partition == AT_HOME:
            return self._forget(name, home, request)
        self._notes.put(name, placement)
        request.named = NamedStream(name.path, placement.note)
        return placement.partition

    def _forget(self, name: Key, home: int, request: Request) -> int:
        """Return the home of a name, which is asked without any note."""
        self._notes.drop(name)
        request.named = NamedStream(name.path)
        return home

    async def _found(self, partition: int, path: bytes, request: Request, asked: NameAsked) -> NameFound:
        # Where a name is may be asked again when a link was lost; notes are written once.
        method = b"GET" if path == WHERE else b"POST"
        question = Request(method, path, b"", {}, msgspec.msgpack.encode(asked))
        question.id, question.caller = request.id, request.caller
        answer = await answered(self._partitions.ask(partition, question))
        if answer.status != 200 or not isinstance(answer, Response):
            raise _NoAnswerError("it did not say where a name is")
        return _FOUND.decode(answer.body)


def _has_moved(answer: Answer) -> bool:
    """Say whether a request certainly took no effect where it was sent, and can be sent again."""
    return answer.status == _UNAVAILABLE and isinstance(answer, Response) and _MOVED in answer.body
