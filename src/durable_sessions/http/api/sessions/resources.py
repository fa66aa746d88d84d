"""The resources of a session: files, repositories and memory stores that a harness mounts."""

from typing import ClassVar

import msgspec

from durable_sessions import lenient
from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidResourceError, RegisteredObjectNotFoundError
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.bodies import new_resource, require_fitting
from durable_sessions.http.api.sessions.events import JSON
from durable_sessions.http.api.sessions.pages import sliced
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.deletions import ResourceDeleted
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import record
from durable_sessions.sessions.change import By
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

_RESOURCES_MAX = 1_000
_RESOURCE = Expected("A resource", InvalidResourceError)


class Resources:
    """Answers requests below ``/v1/sessions/{id}/resources``; secrets are never kept and never shown."""

    def __init__(self, sessions: Sessions, ids: Ids, limits: Limits) -> None:
        self._sessions = sessions
        self._ids = ids
        self._limits = limits

    def _get(self, request: Request, caller: Caller, key: Key, name: str) -> Response:
        return self._one(key, name, incarnations.asked(request))

    def _one(self, key: Key, name: str, life: str | None) -> Response:
        durable = self._sessions.find(key, life)
        return _json(_find(record.of(durable.attributes), name), incarnations.of(durable))

    async def _list(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        kept = record.of(durable.attributes).resources
        page = await sliced(kept, Parameters(request), bytes, self._sessions.scans.turns, self._limits)
        return Response(200, [JSON, (b"Cache-Control", b"no-store"), incarnations.of(durable)], page)

    async def _add(self, request: Request, caller: Caller, key: Key) -> Answer:
        require_fitting(request.body, self._limits)
        given = decode(request.body, dict[str, msgspec.Raw], _RESOURCE, self._limits)
        if lenient.text(given.get("type")) == "memory_store":
            raise InvalidResourceError(problem="A memory store is attached when the session is created.")
        added = new_resource(given, self._sessions.now_ms(), self._ids, InvalidResourceError)

        def revise(old: Record) -> tuple[Record, dict[str, object]]:
            if len(old.resources) >= _RESOURCES_MAX:
                raise InvalidResourceError(problem=f"A session has at most {_RESOURCES_MAX} resources.")
            resources = [*old.resources, added]
            return msgspec.structs.replace(old, resources=resources), {"resources": resources}

        life = await self._sessions.update(key, revise, _by(request, caller))
        return _json(added, incarnations.header(life))

    async def _update(self, request: Request, caller: Caller, key: Key, name: str) -> Answer:
        """Note that a resource has a new secret; the secret itself is for the harness that mounts it."""
        if request.body:
            require_fitting(request.body, self._limits)
            decode(request.body, dict[str, msgspec.Raw], _RESOURCE, self._limits)
        at = rfc3339(self._sessions.now_ms())

        def revise(old: Record) -> tuple[Record, dict[str, object]]:
            _find(old, name)
            resources = [_touched(raw, at) if _name(raw) == name else raw for raw in old.resources]
            return msgspec.structs.replace(old, resources=resources), {"resources": resources}

        life = await self._sessions.update(key, revise, _by(request, caller))
        return self._one(key, name, life)

    async def _delete(self, request: Request, caller: Caller, key: Key, name: str) -> Answer:
        def revise(old: Record) -> tuple[Record, dict[str, object]]:
            _find(old, name)
            resources = [raw for raw in old.resources if _name(raw) != name]
            return msgspec.structs.replace(old, resources=resources), {"resources": resources}

        life = await self._sessions.update(key, revise, _by(request, caller))
        return _json(ResourceDeleted(name, "session_resource_deleted"), incarnations.header(life))

    handlers: ClassVar[dict[str, Handler]] = {
        "addResource": _add,
        "listResources": _list,
        "getResource": _get,
        "updateResource": _update,
        "deleteResource": _delete,
    }


def _by(request: Request, caller: Caller) -> By:
    """Return who changes resources, which is allowed while a session runs."""
    by = incarnations.by(request, caller)
    by.strict = False
    return by


def _name(raw: msgspec.Raw) -> str | None:
    return lenient.text(_members(raw).get("id"))


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


def _find(said: Record, name: str) -> msgspec.Raw:
    for raw in said.resources:
        if _name(raw) == name:
            return raw
    raise RegisteredObjectNotFoundError(kind="resource", name=name)


def _touched(raw: msgspec.Raw, at: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({**_members(raw), "updated_at": at}))


def _json(value: object, life: Header) -> Response:
    return Response(200, [JSON, (b"Cache-Control", b"no-store"), life], msgspec.json.encode(value))
