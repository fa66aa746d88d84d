"""Makes the record of a new session from what a client says of it."""

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.http.api.sessions import bodies
from durable_sessions.http.api.sessions.registries import Registries
from durable_sessions.http.bodies.sessions import NativeSessionBody, SessionBody
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import digests
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.record import NULL, Record
from durable_sessions.sessions.store import Sessions


class NewRecords:
    """Resolves the agent of a new session, and checks what is said of it."""

    def __init__(self, sessions: Sessions, registries: Registries, ids: Ids, limits: Limits) -> None:
        self._sessions = sessions
        self._registries = registries
        self._ids = ids
        self._limits = limits

    async def record(self, caller: Caller, body: SessionBody, *, strict: bool) -> Record:
        """Return the record of a session that a request creates."""
        agent = await self._registries.resolve(caller, body.agent, strict=strict)
        if strict:
            await self._registries.require_current(caller, body.environment_id)
        return bodies.record(body, agent, self._sessions.now_ms(), self._ids, strict=strict)

    async def beside_events(self, caller: Caller, raw: bytes) -> tuple[Record, list[Draft]]:
        """Return the record of a session that an append creates, from ``session`` beside its events.

        With it come the events that the session begins with, in front of those of the append.
        """
        body = bodies.decode_limited(raw, NativeSessionBody, self._limits)
        bodies.require_without("id", given=body.id is not None)
        bodies.require_without("initial_events", given=body.initial_events != NULL)
        said = await self.record(caller, body, strict=False)
        first = bodies.first_events(body, self._limits)
        begins_with = digests.of_creation((draft.id, draft.body) for draft in first)
        return msgspec.structs.replace(said, created_by=caller.principal, begins_with=begins_with), first
