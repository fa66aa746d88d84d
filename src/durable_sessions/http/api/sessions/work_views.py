"""Views of the work on a session over HTTP: the context for the next turn."""

from typing import ClassVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.work import position_of
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi import work as described
from durable_sessions.limits import Limits
from durable_sessions.sessions.contexts import Contexts
from durable_sessions.sessions.graph.context import ContextWish
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams.stream import Key

_JSON: Header = (b"Content-Type", b"application/json")
_NO_STORE: Header = (b"Cache-Control", b"no-store")


class WorkViews:
    """Answers questions about the work on a session; none of them changes anything."""

    def __init__(self, sessions: Sessions, contexts: Contexts, searches: Searches, limits: Limits) -> None:
        self._sessions = sessions
        self._contexts = contexts
        self._searches = searches
        self._budget_tokens = described.BUDGET_TOKENS.within(limits)

    async def _context(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        parameters = Parameters(request)
        at = position_of(parameters.text("at"), durable)
        budget_tokens = parameters.whole(self._budget_tokens)
        types = (*parameters.texts("type"), *parameters.texts("types"))
        sees_all = parameters.word(described.SEE) == "all"
        hits: tuple[tuple[int, float], ...] = ()
        if "q" in parameters:
            hits = await self._searches.best(caller, durable, at, parameters.text("q"))
        wish = ContextWish(budget_tokens, types, sees_all, hits)
        async with self._sessions.scans.admitted(caller.key_id):
            found = await self._contexts.at(durable, at, wish)
        return Response(200, [_JSON, _NO_STORE, incarnations.of(durable)], msgspec.json.encode(found))

    handlers: ClassVar[dict[str, Handler]] = {"getContext": _context}
