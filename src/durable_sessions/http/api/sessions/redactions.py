"""Redacting events over HTTP: ``POST /v1/sessions/{session_id}/redact``."""

import re
from collections.abc import Sequence

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError, LinkDownError, OutcomeUnknownError
from durable_sessions.http.api import json_body
from durable_sessions.http.api.artifact_owner import ArtifactOwner
from durable_sessions.http.api.json_body import Expected
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.bodies.redactions import RedactionBody
from durable_sessions.http.carrier.message import Header, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.sessions.change import By
from durable_sessions.sessions.redaction import Redacted, Redaction
from durable_sessions.sessions.redactor import EventRedactor
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.streams.stream import Key

_JSON: Header = (b"Content-Type", b"application/json")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EXPECTED = Expected("A redaction", InvalidRequestError, 'Send {"events":["sevt_…"],"reason":"…"}.')


class Redactions:
    """Erases events and artifacts for an administrator, and records who did it."""

    def __init__(
        self,
        redactor: EventRedactor,
        sessions: Sessions,
        artifacts: Artifacts,
        owner: ArtifactOwner,
        audit: Audit,
        limits: Limits,
        parser: BodyParser,
    ) -> None:
        self._redactor = redactor
        self._sessions = sessions
        self._artifacts = artifacts
        self._owner = owner
        self._audit = audit
        self._limits = limits
        self._parser = parser

    async def redact(self, request: Request, caller: Caller, key: Key) -> Response:
        """Erase events; the answer has the event that records it.

        Events are erased first, then artifacts. If the server dies in between, the same request finishes it.
        """
        asked = await self._parser.parsed(request.body, self._asked, request)
        for digest in asked.artifacts:
            await self._artifacts.require_known(caller.workspace, digest)
        done = await self._redact(caller, key, asked, incarnations.by(request, caller), request.id)
        await self._redact_artifacts(caller, asked.artifacts)
        event = done.event
        if done.position is not None:
            event = await self._sessions.events.one(self._sessions.find(key, done.life), done.position)
        body = b'{"event":%b}' % (event or b"null")
        return Response(200, [_JSON, _NO_STORE, incarnations.header(done.life)], body)

    async def redact_event(
        self, caller: Caller, key: Key, incarnation: str, event: str, reason: str, request_id: bytes
    ) -> None:
        """Erase one event of one life of a session."""
        by = By(caller.principal, incarnation=incarnation)
        await self._redact(caller, key, Redaction([event], reason), by, request_id)

    async def _redact(
        self, caller: Caller, key: Key, asked: Redaction, by: By, request_id: bytes
    ) -> Redacted:
        """Erase events, and record the act in the same batch."""
        said: dict[str, object] = {
            "session": session_of(key),
            "events": list(asked.events),
            "artifacts": list(asked.artifacts),
            "reason": asked.reason,
        }
        act = Act("session.redacted", caller, caller.workspace, request_id.decode(), said)
        beside = self._audit.beside(act)
        done = await self._redactor.redact(key, asked, by, beside)
        beside.log()
        return done

    async def _redact_artifacts(self, caller: Caller, digests: Sequence[str]) -> None:
        try:
            for digest in digests:
                await self._owner.redact(caller, digest)
        except LinkDownError:
            # The events are erased already, so "this request changed nothing" would be wrong.
            reason = "the events are erased, but not all artifacts: send the same request again"
            raise OutcomeUnknownError(reason=reason) from None

    def _asked(self, request: Request) -> Redaction:
        body = json_body.decode(request.body, RedactionBody, _EXPECTED, self._limits)
        most = self._limits.redacted_events_max
        if not 0 < len(body.events) <= most or len(body.artifacts) > most:
            raise InvalidRequestError(problem=f"Send 1 to {most} events, and at most {most} artifacts.")
        longest = self._limits.redaction_reason_max
        if not 0 < len(body.reason) <= longest:
            raise InvalidRequestError(problem=f"Send a reason of 1 to {longest} characters.")
        if not all(map(_DIGEST.fullmatch, body.artifacts)):
            raise InvalidRequestError(
                problem="An artifact is named by the SHA-256 of its bytes: send 64 lower-case hex digits."
            )
        return Redaction(body.events, body.reason, body.artifacts, body.digest)
