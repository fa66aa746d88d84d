"""Graphs over HTTP: of a session and its family, and from one event back or on through the workspace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    ColdReadError,
    LinkDownError,
    LinkLostError,
    SearchUnavailableError,
    ViewUnavailableError,
)
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.graph_directory import GraphDirectory
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.work import position_of
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi import graph as described
from durable_sessions.search.service import Search
from durable_sessions.sessions.event_walks import EventWalks
from durable_sessions.sessions.family_graphs import FamilyGraphs
from durable_sessions.sessions.graph import graph_nodes, graph_text
from durable_sessions.sessions.graph.graph_nodes import SessionGraph
from durable_sessions.sessions.placed_events import PlacedEvents
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key

_JSON: Header = (b"Content-Type", b"application/json")
_TEXT: Header = (b"Content-Type", b"text/plain; charset=utf-8")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_TEXTS: dict[str, Callable[[SessionGraph], Iterator[str]]] = {
    "mermaid": graph_text.mermaid,
    "dot": graph_text.dot,
}
_AWAY = (
    LinkDownError,
    LinkLostError,
    SearchUnavailableError,
    ColdReadError,
    BucketError,
    BucketDeniedError,
)


class GraphRoutes:
    """Answers requests for graphs; none of them changes anything."""

    def __init__(self, sessions: Sessions, search: Search, directory: GraphDirectory) -> None:
        self._sessions = sessions
        self._search = search
        self._placed = PlacedEvents(sessions)
        self._families = FamilyGraphs(sessions, directory)
        self._walks = EventWalks(directory, sessions.scans.turns, sessions.limits)
        self._depth = described.DEPTH.within(sessions.limits)

    async def _graph(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        parameters = Parameters(request)
        at = position_of(parameters.text("at"), durable)
        is_family = parameters.word(described.FAMILY) == "true"
        form = parameters.word(described.FORMAT)
        async with self._sessions.scans.admitted(caller.key_id):
            with _whole():
                found = await self._families.graph(durable, at, family=is_family)
            if form in _TEXTS:
                lines = (line.encode(errors="replace") for line in _TEXTS[form](found))
                return Response(200, [_TEXT, _NO_STORE, incarnations.of(durable)], await self._joined(lines))
            return await self._answer(found, durable)

    async def _why(self, request: Request, caller: Caller, key: Key, event: str) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        depth = Parameters(request).whole(self._depth)
        async with self._sessions.scans.admitted(caller.key_id):
            with _whole():
                root = await self._placed.in_session(durable, event)
                found = await self._walks.why(
                    key.workspace, root, session_of(key), offsets.encode(durable.tail), depth
                )
            return await self._answer(found, durable)

    async def _impact(self, request: Request, caller: Caller, key: Key, event: str) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        depth = Parameters(request).whole(self._depth)
        async with self._sessions.scans.admitted(caller.key_id):
            with _whole(), self._search.admission.enter(caller.key_id):
                root = await self._placed.in_session(durable, event)
                found = await self._walks.impact(
                    key.workspace, root, session_of(key), offsets.encode(durable.tail), depth
                )
            return await self._answer(found, durable)

    async def _answer(self, found: SessionGraph, durable: StreamView) -> Response:
        body = await self._joined(graph_nodes.encoded(found))
        return Response(200, [_JSON, _NO_STORE, incarnations.of(durable)], body)

    async def _joined(self, pieces: Iterator[bytes]) -> bytes:
        """Return pieces that are made in short turns as one."""
        turn = self._sessions.scans.turns.begin()
        made: list[bytes] = []
        for piece in pieces:
            made.append(piece)
            if turn.over:
                await turn.rest()
        return b"".join(made)

    handlers: ClassVar[dict[str, Handler]] = {"getGraph": _graph, "getWhy": _why, "getImpact": _impact}


@contextmanager
def _whole() -> Iterator[None]:
    """Refuse instead of answering with less than there is."""
    try:
        yield
    except _AWAY as error:
        raise ViewUnavailableError(problem=str(error)) from error
