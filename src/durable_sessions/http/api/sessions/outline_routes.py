"""Outlines over HTTP: packed with gzip for who takes it, since they are numbers and tell no secrets."""

import re
import zlib
from typing import ClassVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api import headers
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.event_ranges import require_within
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.outlines import OutlineAnswer, OutlineBlock
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.answer_headers import ETAG
from durable_sessions.http.openapi.outlines import FROM, POINTS
from durable_sessions.http.openapi.request_headers import (
    ACCEPT_ENCODING,
    ACCEPT_OUTLINE,
    CONTENT_ENCODING,
    IF_NONE_MATCH,
)
from durable_sessions.sessions.outline import block as blocks
from durable_sessions.sessions.outline.block import BLOCK_EVENTS
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key
from durable_sessions.threads import CPU

_JSON: Header = (b"Content-Type", b"application/json")
_OCTETS: Header = (b"Content-Type", b"application/octet-stream")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_NO_CACHE: Header = (b"Cache-Control", b"private, no-cache")
_ENCODING = ACCEPT_ENCODING.name.encode()
_VARY: Header = (b"Vary", ACCEPT_OUTLINE.name.encode() + b", " + _ENCODING)
_PACKED_BYTES_MIN = 1_024
_GZIP = re.compile(rb"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=(?P<q>[0-9.]{1,5}))?\s*(?=,|$)")


class OutlineRoutes:
    """Answers requests for the outline of a session."""

    def __init__(self, sessions: Sessions, outlines: Outlines) -> None:
        self._sessions = sessions
        self._outlines = outlines

    async def _read(self, request: Request, caller: Caller, key: Key) -> Answer:
        parameters = Parameters(request)
        durable = self._sessions.find(key, incarnations.asked(request))
        position = parameters.whole_if_given(FROM)
        async with self._sessions.scans.admitted(caller.key_id):
            if position is None:
                return await self._overview(request, durable, parameters.whole(POINTS))
            require_within("from", str(position), position, durable)
            if position == durable.tail:
                raise InvalidRequestError(
                    problem=f"from={position} is behind the last event; there are {durable.tail}, from 0 on."
                )
            return await self._block(request, durable, position)

    async def _overview(self, request: Request, durable: StreamView, points_max: int) -> Response:
        found = await self._outlines.overview(durable, points_max)
        said = OutlineAnswer(
            session_of(durable.stream.key),
            offsets.encode(found.events),
            found.events,
            BLOCK_EVENTS,
            found.through,
            found.through == found.events,
            [None if one is None else OutlineBlock(**one.shown()) for one in found.summaries],  # type: ignore[arg-type]
            [list(point) for point in found.points],
            found.names,
            found.threads,
        )
        fields = [_JSON, _NO_STORE, (b"Vary", _ENCODING), incarnations.of(durable)]
        return await _packed(request, fields, msgspec.json.encode(said))

    async def _block(self, request: Request, durable: StreamView, position: int) -> Response:
        served = await self._outlines.block(durable, position)
        is_binary = b"application/octet-stream" in request.headers.get(ACCEPT_OUTLINE.key, b"")
        form = ("b" if is_binary else "j") + ("z" if _takes_gzip(request) else "")
        etag = f'"{served.tag}-{form}"'
        fields = [(ETAG, etag.encode()), _NO_CACHE, _VARY, incarnations.of(durable)]
        if headers.matches_etag(request.headers.get(IF_NONE_MATCH.key, b""), etag):
            return Response(304, fields)
        if is_binary:
            return await _packed(request, [_OCTETS, *fields], blocks.to_binary(served.block))
        return await _packed(request, [_JSON, *fields], await CPU.run(blocks.to_json, served.block))

    handlers: ClassVar[dict[str, Handler]] = {"readOutline": _read}


def _takes_gzip(request: Request) -> bool:
    found = _GZIP.search(request.headers.get(ACCEPT_ENCODING.key, b"").lower())
    return found is not None and (found["q"] is None or found["q"].strip(b"0.") != b"")


async def _packed(request: Request, fields: list[Header], body: bytes) -> Response:
    """Return an answer as small as its asker can take it; packed in a thread, which takes milliseconds."""
    if len(body) < _PACKED_BYTES_MIN or not _takes_gzip(request):
        return Response(200, fields, body)
    return Response(200, [*fields, (CONTENT_ENCODING.key, b"gzip")], await CPU.run(_gzip, body))


def _gzip(body: bytes) -> bytes:
    # Without the time and name that gzip files have: equal bodies are equal bytes.
    packer = zlib.compressobj(level=5, wbits=31)
    return packer.compress(body) + packer.flush()
