"""The requests about memory, and the events that write to it."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import httpx2

from durable_sessions.client import encoding
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import json_of, session_path
from durable_sessions.client.event import Event
from durable_sessions.client.pages import Paginator

_JSON = {"Content-Type": "application/json"}
_PER_PAGE = 1_000


class WriteFields(TypedDict, total=False):
    """What else a memory may have: what it is, and how sure it is."""

    kind: str
    confidence: float
    metadata: Mapping[str, Any]
    id: str


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """What a session was told: the event that records it, and the entries as of its ``at``."""

    event: Event
    entries: list[dict[str, Any]]


def get(scope: str, key: str | None, q: str | None, at: int | None, limit: int) -> Paginator[dict[str, Any]]:
    """Ask for entries of a scope, page by page."""
    return Paginator("/v1/memory", [*_given(scope=scope, key=key, q=q, at=at)], dict, _PER_PAGE, limit)


def log(scope: str, start: int, limit: int) -> Paginator[dict[str, Any]]:
    """Ask for records of a scope, page by page."""
    parameters = [("scope", scope), ("from", str(start))]
    return Paginator("/v1/memory/log", parameters, dict, _PER_PAGE, limit)


def scopes() -> Paginator[dict[str, Any]]:
    """Ask for the scopes of the workspace, page by page."""
    return Paginator("/v1/memory/scopes", [], dict, _PER_PAGE)


def recall(
    session: str,
    scope: str,
    *,
    q: str | None,
    key: str | None,
    limit: int,
    influence: str,
    workflow: str | None,
    epoch: int | None,
) -> ApiCall[RecalledMemory]:
    """Ask for entries, and let the session record it; a retry is answered as the first attempt was."""
    given = {"q": q, "key": key, "workflow": workflow}
    body = {"scope": scope, "limit": limit, "influence": influence}
    body |= {name: value for name, value in given.items() if value is not None}
    headers = {**_JSON, "Idempotency-Key": secrets.token_urlsafe(16)}
    if epoch is not None:
        headers["Session-Epoch"] = str(epoch)
    path = session_path(session, "recall")
    return ApiCall("POST", path, _recalled, headers=headers, content=encoding.encode(body))


def written(
    key: str, value: Any, scope: str, why: str, because: Iterable[str], fields: WriteFields
) -> dict[str, Any]:
    """Return the event that writes to a scope."""
    refs = [{"rel": "because", "id": one} for one in because]
    said = {"type": "ds.memory.written", "scope": scope, "key": key, "value": value, "why": why}
    return {**said, "refs": refs, **fields}


def rolled_back(write: str, reason: str, session: str | None) -> dict[str, Any]:
    """Return the event that takes a write back; ``session`` is that of the write, if it is another one.

    Its id is made of what is taken back, so that doing it again changes nothing.
    """
    what = hashlib.sha256(f"{session or ''}/{write}".encode()).hexdigest()[:32]
    said = {"type": "ds.memory.rolled_back", "id": f"rolled-back-{what}", "write": write, "reason": reason}
    return said if session is None else {**said, "session": session}


def _recalled(answer: httpx2.Response) -> RecalledMemory:
    said = json_of(answer)
    return RecalledMemory(Event(said["event"]), said["data"])


def _given(**parameters: object) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in parameters.items() if value is not None)


class BackendRead:
    """A read by ids that an index of your own has found: the scope says which of them are live.

    ``call()`` is the next request, until ``done``; then ``event`` is what the session has to record.
    """

    def __init__(self, scope: str, query: str, found: Iterable[str], backend: str, influence: str) -> None:
        self._scope = scope
        self._query = query
        self._wanted = list(dict.fromkeys(found))
        self._backend = backend
        self._influence = influence
        self._known: dict[str, dict[str, Any]] = {}
        self._at: int | None = None
        self._page: str | None = None
        self.done = False

    def call(self) -> ApiCall[dict[str, Any]]:
        """Return the request for the next live entries."""
        parameters = _given(scope=self._scope, limit=_PER_PAGE, page=self._page)
        return ApiCall("GET", "/v1/memory", json_of, parameters)

    def take(self, answer: dict[str, Any]) -> None:
        """Keep those of the entries that were found; all pages are of one position."""
        self._at, self._page = answer["at"], answer["next_page"]
        for entry in answer["data"]:
            # Two sessions may use one id: the newest write counts.
            if entry["id"] in self._wanted:
                self._known.setdefault(entry["id"], entry)
        self.done = self._page is None or len(self._known) == len(self._wanted)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The live entries, in the order in which the index has found them."""
        return [self._known[one] for one in self._wanted if one in self._known]

    def event(self) -> dict[str, Any]:
        """Return the event that records the read."""
        returned = [{"id": one["id"], "session": one["session"]} for one in self.entries]
        return {
            "type": "ds.memory.read",
            "id": f"recall-{secrets.token_urlsafe(12)}",
            "scope": self._scope,
            "at": self._at,
            "returned": returned,
            "query": self._query,
            "influence": self._influence,
            "backend": self._backend,
        }
