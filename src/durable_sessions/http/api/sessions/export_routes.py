"""Exports over HTTP: a session as a file, made while it is sent."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import ClassVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import OverloadedError, TooManyExportsError
from durable_sessions.exporters import FORMATS
from durable_sessions.exporters.__main__ import frame
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.event_ranges import require_within
from durable_sessions.http.api.sessions.export_process import ExportProcess
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.carrier.message import Answer, Request, StreamingResponse
from durable_sessions.http.openapi.answer_headers import CONTENT_DISPOSITION
from durable_sessions.http.openapi.exports import CONTENT, FORMAT, FROM, FULL, LIMIT
from durable_sessions.limits import Limits
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.stream import Key
from durable_sessions.threads import Pool

_BATCH_BYTES = 256 * 1024


class ExportRoutes:
    """Answers requests for exports; few are made at a time, and each counts until it is sent."""

    def __init__(self, sessions: Sessions, auth: Authenticator, limits: Limits) -> None:
        self._sessions = sessions
        self._auth = auth
        self._limits = limits
        self._running: Counter[str] = Counter()
        # A process blocks a thread that writes to it and one that reads from it, and others start and end.
        self._threads = Pool("export", 2 * limits.exports_max + 1)

    async def _get(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        parameters = Parameters(request)
        form = FORMATS[parameters.word(FORMAT)]
        start = parameters.whole(FROM)
        require_within("from", str(start), start, durable)
        stop = min(durable.tail, start + parameters.whole(LIMIT))
        words = [form.name, *(one.name for one in (FULL, CONTENT) if parameters.flag(one))]
        name = f'attachment; filename="{session_of(key)}{form.suffix}"'
        fields = [
            (b"Content-Type", form.media_type.encode()),
            (b"Cache-Control", b"no-store"),
            (CONTENT_DISPOSITION, name.encode()),
            incarnations.of(durable),
        ]
        async with AsyncExitStack() as stack:
            stack.enter_context(self._counted(caller.key_id or ""))
            frames = self._frames(durable, start, stop)
            chunks = await ExportProcess.start(words, frames, self._threads)
            chunks.hold(stack.pop_all())
        return StreamingResponse(200, fields, self._auth.while_valid(caller, chunks, whole=True))

    @contextmanager
    def _counted(self, holder: str) -> Iterator[None]:
        """Count an export of a key while it is made and sent, or refuse it."""
        if self._running[holder] >= self._limits.exports_per_key_max:
            raise TooManyExportsError(exports_per_key_max=self._limits.exports_per_key_max)
        if self._running.total() >= self._limits.exports_max:
            raise OverloadedError(what="exports")
        self._running[holder] += 1
        try:
            yield
        finally:
            self._running[holder] -= 1
            self._running += Counter()  # without those of which none are left

    async def _frames(self, durable: StreamView, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield the session and its events as the process reads them, some at a time."""
        batch = [frame(msgspec.json.encode(self._sessions.shown(durable)))]
        size = 0
        async with aclosing(self._sessions.events.range(durable, start, stop)) as events:
            async for _, event in events:
                batch.append(frame(event))
                size += len(event)
                if size >= _BATCH_BYTES:
                    yield b"".join(batch)
                    batch, size = [], 0
        yield b"".join(batch)

    handlers: ClassVar[dict[str, Handler]] = {"exportSession": _get}
