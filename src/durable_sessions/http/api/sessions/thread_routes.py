"""The threads of a session over HTTP."""

from collections.abc import Awaitable
from typing import ClassVar

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError, ThreadNotFoundError
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.events import JSON, Events
from durable_sessions.http.api.sessions.pages import sliced
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.thread_objects import ThreadObjects
from durable_sessions.sessions import summary
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams.stream import Key

_NO_STORE = (b"Cache-Control", b"no-store")


class ThreadRoutes:
    """Answers requests for the threads of a session and their events."""

    def __init__(self, sessions: Sessions, events: Events, limits: Limits) -> None:
        self._sessions = sessions
        self._events = events
        self._limits = limits

    async def _list(self, request: Request, caller: Caller, key: Key) -> Answer:
        parameters = Parameters(request)
        statuses = parameters.choices("statuses", summary.STATUSES, tolerant=is_strict(request))
        durable = self._sessions.find(key, incarnations.asked(request))
        shown = ThreadObjects(durable)
        page = await sliced(
            shown.names(),
            parameters,
            shown.encoded,
            self._sessions.scans.turns,
            self._limits,
            lambda name: not statuses or shown.status(name) in statuses,
        )
        return Response(200, [JSON, _NO_STORE, incarnations.of(durable)], page)

    def _show(self, key: Key, thread: str, life: str | None) -> Response:
        durable = self._sessions.find(key, life)
        found = ThreadObjects(durable).find(thread)
        if found is None:
            raise ThreadNotFoundError(thread=thread)
        return Response(200, [JSON, _NO_STORE, incarnations.of(durable)], found)

    async def _archive(self, request: Request, caller: Caller, key: Key, thread: str) -> Answer:
        by = incarnations.by(request, caller)
        if await self._sessions.archive_thread(key, thread, by) is None:
            # A thread that nobody knows is refused as such first.
            self._show(key, thread, by.incarnation)
            raise InvalidRequestError(problem="The primary thread is archived with its session.")
        return self._show(key, thread, by.incarnation)

    def _get(self, request: Request, caller: Caller, key: Key, thread: str) -> Response:
        return self._show(key, thread, incarnations.asked(request))

    def _read_events(
        self, request: Request, caller: Caller, key: Key, thread: str
    ) -> Answer | Awaitable[Answer]:
        self._get(request, caller, key, thread)
        return self._events.of_thread(request, caller, key, thread)

    def _stream(self, request: Request, caller: Caller, key: Key, thread: str) -> Answer | Awaitable[Answer]:
        self._get(request, caller, key, thread)
        return self._events.stream(request, caller, key, thread)

    handlers: ClassVar[dict[str, Handler]] = {
        "listThreads": _list,
        "getThread": _get,
        "archiveThread": _archive,
        "readThreadEvents": _read_events,
        "streamThread": _stream,
    }
