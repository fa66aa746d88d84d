"""Sessions for Google's Agent Development Kit (ADK), with the state that apps and users share."""

import uuid
from collections.abc import Mapping
from typing import Any

try:
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events.event import Event as AdkEvent
    from google.adk.sessions import _session_util
    from google.adk.sessions.base_session_service import (
        BaseSessionService,
        GetSessionConfig,
        ListSessionsResponse,
    )
    from google.adk.sessions.session import Session
    from google.adk.sessions.state import State
except ImportError as missing:
    raise ImportError("This needs ADK: pip install 'durable-sessions[adk]'") from missing
try:
    from google.adk.errors._stale_session_error import StaleSessionError
except ImportError:  # before 2.9
    StaleSessionError = ValueError

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import Adapter
from durable_sessions.adapters._envelope import all_unwrapped, encoded, unwrapped, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event
from durable_sessions.client.encoding import decode, encode
from durable_sessions.client.errors import PreconditionFailedError, SessionReplacedError

__all__ = ["DurableSessionService", "StaleSessionError"]

# Before 2.8 there is only the one that fails for a value that is no JSON.
_state_delta = getattr(_session_util, "extract_json_safe_state_delta", _session_util.extract_state_delta)

EVENT, STATE = "adk.event", "adk.state"
_SLOT = "state"
_MEMORY_BYTES_MAX = 12_000
_STALE = "The session {} was modified in storage since it was read. Get it again."


class DurableSessionService(BaseSessionService, Adapter):  # type: ignore[misc]
    """ADK's ``BaseSessionService``: a session of ADK is the session ``adk:<app>:<user>:<session_id>``."""

    name = "adk"
    package = "google-adk"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
    ) -> None:
        Adapter.__init__(self, client, url=url, api_key=api_key, namespace=namespace)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; AlreadyExistsError if there is one of that id."""
        chosen = (session_id or "").strip() or str(uuid.uuid4())
        return await self._clients.arun(self._create(app_name, user_id, chosen, state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events, or the last of them; None if there is none."""
        chosen = session_id.strip() if session_id else session_id
        return await self._clients.arun(self._get(app_name, user_id, chosen, config))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app or of one of its users without events, the last changed one last."""
        return ListSessionsResponse(sessions=await self._clients.arun(self._list(app_name, user_id)))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session; what it has left in the state of its user and app stays."""
        await self._clients.arun(requests.delete(self._id(app_name, user_id, session_id.strip())))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, with keys that have no prefix."""
        return await self._clients.arun(self._shared(self._scope(app_name, user_id)))

    async def append_event(self, session: Session, event: AdkEvent) -> AdkEvent:
        """Append an event with all that it changes in the state, if nobody has appended since it was read."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        if await self._clients.arun(self._append(session, event)):
            self._update_session_state(session, event)
            session.events.append(event)
            session.last_update_time = event.timestamp
        return event

    # Plans ------------------------------------------------------------------------------

    def _create(self, app: str, user: str, session_id: str, state: dict[str, Any]) -> Plan[Session]:
        deltas = _state_delta(state)
        made = Session(app_name=app, user_id=user, id=session_id, state=dict(deltas["session"]))
        first = self._state_event(made.state, 0.0)
        first["id"] = names.event_id("as", "created", str(uuid.uuid4()))
        events = yield from encoded([first])
        events += yield from self._shared_events(app, user, deltas, first["id"])
        new = self._metadata(app=app, user=user, session_id=session_id)
        try:
            done = yield from requests.append(
                self._id(app, user, session_id), events, if_={"exists": False}, new=new
            )
        except (PreconditionFailedError, SessionReplacedError) as refused:
            raise AlreadyExistsError(f"Session with id {session_id} already exists.") from refused
        found = yield from self._get(app, user, session_id, None)
        return made if found is None else _marked(found, done.incarnation, done.next_offset)

    def _get(
        self, app: str, user: str, session_id: str, config: GetSessionConfig | None
    ) -> Plan[Session | None]:
        session = self._id(app, user, session_id)
        info = yield from requests.info(session)
        held = None if info is None else (yield from requests.slots(session, [_SLOT])).get(_SLOT)
        if info is None or held is None:
            return None
        found = yield from self._events(session, config)
        state = {
            **(yield from unwrapped(held)),
            **(yield from self._app_state(app)),
            **(yield from self._user_state(app, user)),
        }
        made = _session(app, user, session_id, state, held)
        made.events = [AdkEvent.model_validate(raw) for raw in found]
        return _marked(made, info.incarnation, info.next_offset)

    def _events(self, session: str, config: GetSessionConfig | None) -> Plan[list[Any]]:
        limit = None if config is None else config.num_recent_events
        if limit == 0:
            return []
        if limit is None:
            stored = yield from requests.events(session, types=EVENT)
        else:
            stored = (yield from requests.events(session, types=EVENT, order="desc", limit=limit))[::-1]
        raws = yield from all_unwrapped(stored)
        if config is None or config.after_timestamp is None:
            return raws
        earlier = [n + 1 for n, raw in enumerate(raws) if raw["timestamp"] < config.after_timestamp]
        return raws[max(earlier, default=0) :]

    def _list(self, app: str, user: str | None) -> Plan[list[Session]]:
        wanted = {"adapter": self.name, "namespace": self._namespace, "app": app}
        if user is not None:
            wanted["user"] = user
        of_app: dict[str, Any] | None = None
        of_users: dict[str, dict[str, Any]] = {}
        listed = []
        for info in (yield from requests.sessions(metadata=wanted, show=_SLOT)):
            held = info.raw["slots"].get(_SLOT)
            if held is None:
                continue
            of_user, session_id = info.metadata["user"], info.metadata["session_id"]
            if of_app is None:
                of_app = yield from self._app_state(app)
            if of_user not in of_users:
                of_users[of_user] = yield from self._user_state(app, of_user)
            own = yield from unwrapped(Event(held))
            state = {**own, **of_app, **of_users[of_user]}
            listed.append(_session(app, of_user, session_id, state, Event(held)))
        return sorted(listed, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _append(self, session: Session, event: AdkEvent) -> Plan[bool]:
        """Append an event, and say whether it is a new one."""
        name = self._id(session.app_name, session.user_id, session.id)
        held = (yield from requests.slots(name, [_SLOT])).get(_SLOT)
        if held is None:
            raise ValueError(f"Session {session.id} not found.")
        raw = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        deltas = _state_delta(event.actions.state_delta or {})
        stored = wrapped(EVENT, raw, id=names.event_id("ae", event.id))
        own = {**(yield from unwrapped(held)), **deltas["session"]}
        events = yield from encoded([stored, self._state_event(own, event.timestamp)])
        events += yield from self._shared_events(session.app_name, session.user_id, deltas, stored["id"])
        life, tail = _mark(session)
        condition: dict[str, Any] = {"slots": {_SLOT: held.id}}
        if life is not None:
            condition |= {"incarnation": life, "tail": tail}
        elif not (yield from self._is_whole(name, session, event)):
            raise StaleSessionError(_STALE.format(session.id))
        try:
            done = yield from requests.append(name, events, if_=condition)
        except (PreconditionFailedError, SessionReplacedError) as refused:
            raise StaleSessionError(_STALE.format(session.id)) from refused
        _marked(session, done.incarnation, done.next_offset)
        return not done.repeated

    def _is_whole(self, name: str, session: Session, event: AdkEvent) -> Plan[bool]:
        """Say whether a session that was made by hand, or lost its mark on the way, ends as the stored one.

        An event that is sent again may be the last one there.
        """
        newest = yield from requests.events(name, types=EVENT, order="desc", limit=1)
        ids = {names.event_id("ae", one.id) for one in (*session.events[-1:], event)}
        return {one.id for one in newest} <= ids and (bool(newest) or not session.events)

    # State ------------------------------------------------------------------------------

    def _state_event(self, state: Mapping[str, Any], updated: float) -> dict[str, Any]:
        return wrapped(STATE, dict(state), slot=_SLOT, searchable=False, updated=updated)

    def _shared_events(
        self, app: str, user: str, deltas: Mapping[str, dict[str, Any]], because: str
    ) -> Plan[list[bytes]]:
        """Return what an event changes in the state of its app and user, as memories that rest on it."""
        made = []
        for scope, delta in ((self._scope(app), deltas["app"]), (self._scope(app, user), deltas["user"])):
            for key, value in delta.items():
                text = encode({"value": value})
                if len(text) > _MEMORY_BYTES_MAX:
                    stored = yield from requests.put_artifact(text)
                    text = encode({"raw_artifact": {"sha256": stored.sha256, "bytes": stored.size}})
                refs = [{"rel": "because", "id": because}]
                said = {"type": "ds.memory.written", "scope": scope, "key": key, "why": "state", "refs": refs}
                made.append(encode({**said, "value": decode(text)}))
        return made

    def _app_state(self, app: str) -> Plan[dict[str, Any]]:
        shared = yield from self._shared(self._scope(app))
        return {State.APP_PREFIX + key: value for key, value in shared.items()}

    def _user_state(self, app: str, user: str) -> Plan[dict[str, Any]]:
        shared = yield from self._shared(self._scope(app, user))
        return {State.USER_PREFIX + key: value for key, value in shared.items()}

    def _shared(self, scope: str) -> Plan[dict[str, Any]]:
        state = {}
        for entry in (yield from requests.memory(scope)):
            said = entry["value"]
            if "raw_artifact" in said:
                said = decode((yield from requests.get_artifact(said["raw_artifact"]["sha256"])))
            state[entry["key"]] = said["value"]
        return state

    # Names ------------------------------------------------------------------------------

    def _id(self, app: str, user: str, session_id: str) -> str:
        return names.session_id(self._namespace, app, user, session_id)

    def _scope(self, *parts: str) -> str:
        """Return the memory scope of an app, or of a user of it."""
        name = "/".join((self._namespace, *map(names.escaped, parts)))
        if len(name) > names.SESSION_ID_MAX:
            name = f"{self._namespace}/{names.event_id('scope', *parts)}"
        return f"store:{name}"


def _session(app: str, user: str, session_id: str, state: dict[str, Any], held: Event) -> Session:
    """Return a session without events, as of the event that holds its state."""
    updated = held["updated"] or held.created_at.timestamp()
    return Session(app_name=app, user_id=user, id=session_id, state=state, last_update_time=updated)


def _mark(session: Session) -> tuple[str | None, str | None]:
    life, _, tail = (session._storage_update_marker or "").partition("/")
    return (life, tail) if tail else (None, None)


def _marked(session: Session, life: str | None, tail: str) -> Session:
    """Note in a session which state of the log it shows."""
    session._storage_update_marker = f"{life}/{tail}"
    return session
