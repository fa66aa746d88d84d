"""Branches of sessions over HTTP: how two differ, and taking over what one has found out."""

from typing import ClassVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api import headers
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.work import appender, asked_once, position_of
from durable_sessions.http.bodies.work import AdoptBody, AdoptedBranch
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.sessions.branches import AdoptRequest, Branches
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.streams.stream import Key

_JSON: Header = (b"Content-Type", b"application/json")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_ADOPT = Expected("An adoption", InvalidRequestError, 'Send {"session":"the-branch"}.')


class BranchRoutes:
    """Answers requests about the branches of a session."""

    def __init__(self, sessions: Sessions, branches: Branches, limits: Limits, parser: BodyParser) -> None:
        self._sessions = sessions
        self._branches = branches
        self._limits = limits
        self._parser = parser

    async def _diff(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        parameters = Parameters(request)
        at = position_of(parameters.text("at"), durable)
        name = parameters.text("with")
        if name is None:
            raise InvalidRequestError(problem="with is missing: send with=<the other session>.")
        other = self._sessions.find(session_key(key.workspace, name))
        other_at = position_of(parameters.text("with_at"), other)
        async with self._sessions.scans.admitted(caller.key_id):
            found = await self._branches.difference(durable, at, other, other_at)
        return Response(200, [_JSON, _NO_STORE, incarnations.of(durable)], msgspec.json.encode(found))

    async def _adopt(self, request: Request, caller: Caller, key: Key) -> Answer:
        body = await self._parser.parsed(request.body, decode, request.body, AdoptBody, _ADOPT, self._limits)
        once, incarnation = asked_once(request, self._limits), incarnations.asked(request)
        # A repeat is answered first: the branch may be gone, or be another one, since.
        stored = None if once is None else await self._branches.adopted_before(key, once, incarnation)
        if stored is None:
            branch = self._sessions.find(session_key(key.workspace, body.session))
            wanted = AdoptRequest(
                appender(caller),
                branch,
                position_of(None if body.at is None else str(body.at), branch),
                body.on_conflict,
                headers.session_epoch(request),
                once,
                incarnation,
            )
            async with self._sessions.scans.admitted(caller.key_id):
                stored = await self._branches.adopt(key, wanted)
        (event,) = await self._sessions.events.stored(self._sessions.find(key, stored.life), stored.events)
        answer = msgspec.json.encode(AdoptedBranch(msgspec.Raw(event)))
        return Response(200, [_JSON, _NO_STORE, incarnations.header(stored.life)], answer)

    handlers: ClassVar[dict[str, Handler]] = {"getDiff": _diff, "adoptBranch": _adopt}
