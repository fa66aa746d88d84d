"""A session store for the Claude Agent SDK: transcripts are kept here, and resumed on any machine.

The SDK asks for methods, not for a class: ``ClaudeAgentOptions(session_store=DurableSessionStore())``. So
nothing of it is imported but the function that folds a summary.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._adapter import ATTEMPTS_MAX, Adapter, ConflictsPersistError
from durable_sessions.adapters._envelope import all_unwrapped, batches, encoded, wrapped
from durable_sessions.adapters._plans import Plan
from durable_sessions.client import AsyncClient, Client, Event
from durable_sessions.client.encoding import encode
from durable_sessions.client.errors import NotFoundError, PreconditionFailedError, SessionReplacedError

ENTRY, SUB_ENTRY, SUMMARY, DELETED = "claude.entry", "claude.sub_entry", "claude.summary", "claude.deleted"
_REMEMBERED_MAX = 1_000

Key = Mapping[str, str]
Entry = Mapping[str, Any]


class DurableSessionStore(Adapter):
    """The SDK's ``SessionStore``: a transcript is one session, and each sub-agent's is a thread of it.

    The SDK gives an append 60 seconds and three tries, so a request of ours is given up earlier than that.
    """

    name = "claude"
    package = "claude-agent-sdk"

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str = name,
    ) -> None:
        super().__init__(client, url=url, api_key=api_key, namespace=namespace, timeout=8.0, retries=5)
        self._summaries: OrderedDict[str, tuple[str, dict[str, Any]]] = OrderedDict()

    # The SDK's interface ----------------------------------------------------------------

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        """Store entries behind those of the same key; the ones whose uuid is stored already are left out."""
        if entries:
            plan = self._append_sub if key.get("subpath") else self._append_main
            await self._clients.arun(plan(key, entries))

    async def load(self, key: Key) -> list[dict[str, Any]] | None:
        """Return the entries of a key as they were appended; None if nothing was."""
        return await self._clients.arun(self._load(key))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Return the transcripts of a project, and when each was last appended to."""
        listed = await self._clients.arun(self._listed(project_key))
        return [{"session_id": one["session_id"], "mtime": one["mtime"]} for one in listed]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return the transcripts of a project with the summaries that the SDK has folded."""
        return await self._clients.arun(self._listed(project_key))

    async def delete(self, key: Key) -> None:
        """Delete a transcript with those of its sub-agents, or only that of one sub-agent."""
        if key.get("subpath"):
            await self._clients.arun(self._delete_sub(key))
        else:
            self._summaries.pop(self._session(key), None)
            await self._clients.arun(requests.delete(self._session(key)))

    async def list_subkeys(self, key: Key) -> list[str]:
        """Return the subpaths that have entries."""
        return await self._clients.arun(self._subkeys(key))

    # Plans ------------------------------------------------------------------------------

    def _append_main(self, key: Key, entries: Sequence[Entry]) -> Plan[None]:
        """Append entries, each batch together with the summary of all entries up to it.

        The summary follows from the one before, so a batch is on condition that this is still the last one.
        """
        session, new = self._session(key), self._described(key)
        events = yield from encoded(_event(entry, ENTRY) for entry in entries)
        begin = 0
        for batch in batches(events):
            some = entries[begin : begin + len(batch)]
            begin += len(batch)
            for _ in range(ATTEMPTS_MAX):
                holder, data = yield from self._summary(session)
                folded = _folded(key, data, some)
                summary = {
                    "type": SUMMARY,
                    "id": _summary_id(some),
                    "slot": SUMMARY,
                    "searchable": False,
                    "data": folded,
                }
                try:
                    appended = yield from requests.append(
                        session, [*batch, encode(summary)], if_={"slots": {SUMMARY: holder}}, new=new
                    )
                except (PreconditionFailedError, SessionReplacedError):
                    self._summaries.pop(session, None)
                    continue
                if appended.repeated:  # which summary is the last one is not known then
                    self._summaries.pop(session, None)
                else:
                    self._remember(session, str(summary["id"]), folded)
                break
            else:
                raise ConflictsPersistError(session)

    def _summary(self, session: str) -> Plan[tuple[str | None, dict[str, Any] | None]]:
        """Return the id and the data of the last summary."""
        known = self._summaries.get(session)
        if known is not None:
            return known
        held = (yield from requests.slots(session, [SUMMARY])).get(SUMMARY)
        return (None, None) if held is None else (held.id, held.get("data"))

    def _append_sub(self, key: Key, entries: Sequence[Entry]) -> Plan[None]:
        """Append entries of a sub-agent, whose ids depend on how often its transcript was deleted."""
        session, subpath = self._session(key), key["subpath"]
        deleted: str | None = None
        for _ in range(ATTEMPTS_MAX):
            wished = [_event(entry, SUB_ENTRY, subpath, deleted or "") for entry in entries]
            wished[-1].update(slot=names.slot("sub", subpath), subpath=subpath)
            events = yield from encoded(wished)
            try:
                for batch in batches(events):
                    condition = {"slots": {names.slot("deleted", subpath): deleted}}
                    yield from requests.append(session, batch, if_=condition, new=self._described(key))
            except PreconditionFailedError as refused:
                deleted = refused.details["slots"].get(names.slot("deleted", subpath))
            except SessionReplacedError:
                deleted = None
            else:
                return
        raise ConflictsPersistError(session)

    def _load(self, key: Key) -> Plan[list[dict[str, Any]] | None]:
        session, subpath = self._session(key), key.get("subpath")
        if subpath:
            found = yield from self._thread(session, subpath)
        else:
            found = yield from requests.events(session, types=ENTRY)
        entries = yield from all_unwrapped(found)
        return entries or None

    def _thread(self, session: str, subpath: str) -> Plan[list[Event]]:
        """Return the entries of a sub-agent behind the last deletion."""
        thread = _thread_of(subpath)
        found = yield from requests.events(session, thread=thread)
        if not found:  # of very many threads the server reads the first ones by name
            every = yield from requests.events(session, types=[SUB_ENTRY, DELETED])
            found = [event for event in every if event.get("session_thread_id") == thread]
        begin = max((index + 1 for index, event in enumerate(found) if event.type == DELETED), default=0)
        return [event for event in found[begin:] if event.type == SUB_ENTRY]

    def _listed(self, project_key: str) -> Plan[list[dict[str, Any]]]:
        wanted = {"adapter": self.name, "namespace": self._namespace, "project_key": project_key}
        found = yield from requests.sessions(metadata=wanted, show=SUMMARY)
        shown = ((info.metadata["session_id"], info.raw["slots"].get(SUMMARY)) for info in found)
        return [
            {
                "session_id": session_id,
                "mtime": int(Event(held).created_at.timestamp() * 1_000),
                "data": held.get("data", {}),
            }
            for session_id, held in shown
            if held is not None
        ]

    def _delete_sub(self, key: Key) -> Plan[None]:
        session, subpath = self._session(key), key["subpath"]
        slot = names.slot("sub", subpath)
        marker = {"type": DELETED, "searchable": False, "session_thread_id": _thread_of(subpath)}
        events = [
            encode({**marker, "slot": names.slot("deleted", subpath)}),
            encode({**marker, "slot": slot, "slot_empty": "keep"}),
        ]
        held = yield from requests.slots(session, [slot])
        if held.get(slot) is not None:
            try:
                yield from requests.append(session, events, if_={"incarnation": held.incarnation})
            except (PreconditionFailedError, NotFoundError):
                pass  # the whole session was deleted meanwhile

    def _subkeys(self, key: Key) -> Plan[list[str]]:
        session, prefix = self._session(key), names.slot("sub", "")
        found = yield from requests.slot_names(session, prefix)
        long = yield from requests.slots(session, [name for name in found if names.HASHED in name])
        return [
            str(long.events[name]["subpath"]) if name in long.events else unquote(name.removeprefix(prefix))
            for name in found
        ]

    # Names ------------------------------------------------------------------------------

    def _session(self, key: Key) -> str:
        return names.session_id(self._namespace, key["project_key"], key["session_id"])

    def _described(self, key: Key) -> Mapping[str, Any]:
        return self._metadata(project_key=key["project_key"], session_id=key["session_id"])

    def _remember(self, session: str, holder: str, data: dict[str, Any]) -> None:
        self._summaries[session] = (holder, data)
        self._summaries.move_to_end(session)
        if len(self._summaries) > _REMEMBERED_MAX:
            self._summaries.popitem(last=False)


def _event(entry: Entry, kind: str, subpath: str = "", life: str = "") -> dict[str, Any]:
    """Return an entry as an event; one without a uuid is never taken for another."""
    uuid = entry.get("uuid")
    return wrapped(
        kind,
        entry,
        id=names.event_id("ce", subpath, life, uuid) if isinstance(uuid, str) else None,
        session_thread_id=_thread_of(subpath) if subpath else None,
    )


def _thread_of(subpath: str) -> str:
    return names.session_id("sub", subpath)


def _summary_id(entries: Sequence[Entry]) -> str:
    """Return the id of the summary behind entries: the same if the same entries are sent again."""
    uuids = [entry.get("uuid") for entry in entries]
    if all(isinstance(uuid, str) for uuid in uuids):
        return names.event_id("cs", *map(str, uuids))
    return f"cs_{secrets.token_hex(20)}"


def _folded(key: Key, data: dict[str, Any] | None, entries: Sequence[Entry]) -> dict[str, Any]:
    try:
        from claude_agent_sdk import fold_session_summary
    except ImportError as missing:
        raise ImportError(
            "This store needs the Claude Agent SDK: pip install 'claude-agent-sdk>=0.1.68'"
        ) from missing
    before = None if data is None else {"session_id": key["session_id"], "mtime": 0, "data": data}
    folded: dict[str, Any] = fold_session_summary(before, dict(key), list(entries))["data"]
    return folded
