"""Dossiers over HTTP."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import ClassVar, cast

from durable_sessions.access.caller import Caller
from durable_sessions.errors import ViewUnavailableError
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.work import position_of
from durable_sessions.http.carrier.message import Answer, Header, Request, StreamingResponse
from durable_sessions.http.openapi.answer_headers import CONTENT_DISPOSITION
from durable_sessions.http.openapi.dossiers import FORMAT, KIND, MARKDOWN, ZIP
from durable_sessions.limits import Limits
from durable_sessions.sessions.dossier.dossiers import REDACTED_MEANWHILE, Dossiers
from durable_sessions.sessions.dossier.kinds import DossierKind
from durable_sessions.sessions.dossier.made import MadeDossier
from durable_sessions.sessions.dossier.spool import Spool
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.scans import Scans
from durable_sessions.streams.stream import Key

_NO_STORE: Header = (b"Cache-Control", b"no-store")
_TYPES = {
    "json": b"application/json",
    "md": f"{MARKDOWN}; charset=utf-8".encode(),
    "zip": ZIP.encode(),
}


class DossierRoutes:
    """Answers requests for dossiers; few are made at a time, and each counts until it is sent."""

    def __init__(self, sessions: Sessions, dossiers: Dossiers, auth: Authenticator, limits: Limits) -> None:
        self._sessions = sessions
        self._dossiers = dossiers
        self._auth = auth
        self._admission = Scans(
            replace(limits, scans_max=limits.dossiers_max, scans_per_key_max=limits.dossiers_per_key_max)
        )

    async def _get(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        parameters = Parameters(request)
        at = position_of(parameters.text("at"), durable)
        kind, form = cast("DossierKind", parameters.word(KIND)), parameters.word(FORMAT)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._admission.admitted(caller.key_id))
            spool = self._dossiers.spool()
            stack.callback(spool.close)
            made = await self._write(durable, at, kind, form, spool)
            if not made.is_current():
                raise ViewUnavailableError(problem=REDACTED_MEANWHILE)
            fields = [
                (b"Content-Type", _TYPES[form]),
                (b"Content-Length", b"%d" % spool.size),
                _NO_STORE,
                incarnations.of(durable),
            ]
            if form == "zip":
                name = f'attachment; filename="{session_of(key)}-{kind}.zip"'
                fields.append((CONTENT_DISPOSITION, name.encode()))
            chunks = _SpooledPieces(spool, made.is_current, stack.pop_all())
        return StreamingResponse(200, fields, self._auth.while_valid(caller, chunks, whole=True))

    async def _write(
        self, durable: StreamView, at: int, kind: DossierKind, form: str, spool: Spool
    ) -> MadeDossier:
        keys_since_ms = self._auth.keys_since_ms
        if form == "zip":
            made = await self._dossiers.archive(durable, at, kind, spool, keys_since_ms=keys_since_ms)
        else:
            made = await self._dossiers.make(durable, at, kind, keys_since_ms=keys_since_ms)
            await spool.write(made.json() if form == "json" else made.document())
        await spool.rewind()
        return made

    handlers: ClassVar[dict[str, Handler]] = {"getDossier": _get}


class _SpooledPieces:
    """Sends what was written; all is freed at the end, even if sending never began.

    It is aborted, not ended, as soon as something of it is redacted: a part is not taken for the whole.
    """

    def __init__(self, spool: Spool, is_current: Callable[[], bool], held: AsyncExitStack) -> None:
        self._spool = spool
        self._is_current = is_current
        self._held = held

    def __aiter__(self) -> "_SpooledPieces":
        return self

    async def __anext__(self) -> bytes:
        piece = await self._spool.read()
        if not self._is_current():
            await self.aclose()
            raise asyncio.CancelledError
        if not piece:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Free the file, and let the next one begin."""
        await self._held.aclose()
