"""Incarnations: which session of several with the same id, one after the other, a request is about."""

import re
from collections.abc import Awaitable

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api import headers
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.carrier.message import Answer, Header, Request, Response, StreamingResponse
from durable_sessions.http.openapi.answer_headers import SESSION_INCARNATION
from durable_sessions.http.openapi.request_headers import IF_MATCH
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.change import By
from durable_sessions.storage.door import StreamView

_IF_MATCH = IF_MATCH.key
_INCARNATION = re.compile(r"[0-9a-f]{12}", re.ASCII)


def asked(request: Request) -> str | None:
    """Return the incarnation that a request asks for with ``incarnation=``, None if it takes any."""
    if b"incarnation" not in request.query:
        return None
    given = Parameters(request).text("incarnation")
    if given is not None and not _INCARNATION.fullmatch(given):
        raise InvalidRequestError(
            problem="incarnation is what Session-Incarnation said: 12 hexadecimal digits."
        )
    return given


def by(request: Request, caller: Caller) -> By:
    """Return who changes a session, in which dialect, and which incarnation."""
    wanted = headers.IfMatch()
    if _IF_MATCH in request.headers:
        wanted = headers.if_match(request.headers[_IF_MATCH].decode("latin-1"))
    missing = headers.wants_missing(request)
    life = wanted.incarnation or asked(request)
    may_judge = caller.role >= Role.EVALUATOR
    return By(caller.principal, is_strict(request), may_judge, life, wanted.tails, missing)


def of(durable: StreamView) -> Header:
    """Return the header with the incarnation of a session."""
    return header(event_ids.tag(durable.stream))


def header(life: str) -> Header:
    """Return the header with an incarnation."""
    return SESSION_INCARNATION, life.encode()


def with_header(answer: Answer | Awaitable[Answer], life: str) -> Answer | Awaitable[Answer]:
    """Add the header with the incarnation to an answer, now or when it is awaited."""
    if isinstance(answer, Response | StreamingResponse):
        answer.headers.append(header(life))
        return answer
    return _later(answer, life)


async def _later(answer: Awaitable[Answer], life: str) -> Answer:
    answered = await answer
    answered.headers.append(header(life))
    return answered
