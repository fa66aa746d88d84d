"""The requests that plans are made of."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from durable_sessions.adapters._plans import Plan, PlanStep
from durable_sessions.client import Appended, Artifact, Event, Hit, SearchPage, SearchResults, SessionInfo
from durable_sessions.client.calls import join_append
from durable_sessions.client.errors import ConflictError, NotFoundError
from durable_sessions.client.pages import Order

HITS_MAX = 1_000
HITS_PER_REQUEST = 100
NAMES_PER_REQUEST = 100
NAMES_BYTES_MAX = 8_000
"""How many bytes of slot names a request line has, at most about half of what the server takes."""


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """Slots of a session as of one moment, by name; ``incarnation`` is None if there is no session."""

    events: dict[str, Event]
    incarnation: str | None

    def get(self, name: str) -> Event | None:
        """Return the event that holds a slot."""
        return self.events.get(name)


def append(
    session: str,
    events: Sequence[bytes],
    *,
    if_: Mapping[str, Any] | None = None,
    new: Mapping[str, Any] | None = None,
    epoch: int | None = None,
) -> Plan[Appended]:
    """Append encoded events, all or none; ``new`` describes the session if this creates it.

    With an ``epoch`` they are those of the worker that has it: refused as soon as another one has woken the
    session.
    """
    body = join_append(events, if_, new)
    appended: Appended = yield PlanStep(
        lambda client: client.session(session, epoch=epoch).append_body(body), writes=True
    )
    return appended


def wake(session: str, new: Mapping[str, Any]) -> Plan[int]:
    """Wake a session, which ``new`` describes if it must be made first; return the epoch of this worker."""
    try:
        work = yield PlanStep(lambda client: client.wake(session), writes=True)
    except NotFoundError:
        try:
            yield PlanStep(lambda client: client.sessions.create(session, **new), writes=True)
        except ConflictError:
            pass  # somebody else has made it meanwhile
        work = yield PlanStep(lambda client: client.wake(session), writes=True)
    return int(work.epoch)


def slots(
    session: str,
    names: Sequence[str] = (),
    *,
    prefix: str | None = None,
    order: Order = "asc",
    limit: int | None = None,
    after: str | None = None,
) -> Plan[HeldSlots]:
    """Read slots by name, and those with a prefix. A session that does not exist holds none."""
    handle = yield PlanStep(lambda client: client.session(session))
    found: dict[str, Event] = {}
    try:
        *earlier, last = [*_batches(names)] or [[]]
        for some in earlier:
            held = yield PlanStep(lambda _, some=some: handle.slots(some))  # type: ignore[misc]
            found.update((one.name, one.event) for one in held)
        if last or prefix is not None:
            held = yield PlanStep(
                lambda _: handle.slots(last, prefix=prefix, order=order, limit=limit, after=after)
            )
            found.update((one.name, one.event) for one in held)
    except NotFoundError:
        return HeldSlots({}, None)
    return HeldSlots(found, handle.incarnation)


def slot_names(session: str, prefix: str) -> Plan[list[str]]:
    """Read the names of slots with a prefix."""
    try:
        held = yield PlanStep(lambda client: client.session(session).slots(prefix=prefix, values=False))
    except NotFoundError:
        return []
    return [one.name for one in held]


def events(session: str, **filters: Any) -> Plan[list[Event]]:
    """Read events; none if there is no session."""
    try:
        found: list[Event] = yield PlanStep(lambda client: client.session(session).events(**filters))
    except NotFoundError:
        return []
    return found


def scores(session: str, words: str, *, types: str) -> Plan[dict[str, float]]:
    """Search events of a session by words; return the ids of the best ones with how well each matches."""
    query = _query(words)
    found: dict[str, float] = {}
    page: str | None = None
    while query and len(found) < HITS_MAX:
        try:
            answer: SearchPage = yield PlanStep(
                lambda client, page=page: client.session(session).search(  # type: ignore[misc]
                    query, types=types, page=page, limit=HITS_PER_REQUEST
                )
            )
        except NotFoundError:
            break
        found.update((hit.event.id, hit.score) for hit in answer.hits)
        page = answer.next_page
        if page is None:
            break
    return found


def search(words: str, metadata: Mapping[str, str], *, types: Sequence[str], limit: int) -> Plan[list[Hit]]:
    """Search the events of all sessions with such metadata by words; return the best, the best first."""
    query = _query(words)
    if not query:
        return []
    found: SearchResults = yield PlanStep(
        lambda client: client.search(query, metadata=metadata, types=types, limit=limit, hits=limit)
    )
    hits = [hit for group in found.groups for hit in group.hits]
    return sorted(hits, key=lambda hit: -hit.score)


def sessions(**filters: Any) -> Plan[list[SessionInfo]]:
    """List sessions."""
    found: list[SessionInfo] = yield PlanStep(lambda client: client.sessions.list(**filters))
    return found


def info(session: str) -> Plan[SessionInfo | None]:
    """Read a session, None if there is none."""
    try:
        found: SessionInfo = yield PlanStep(lambda client: client.sessions.get(session))
    except NotFoundError:
        return None
    return found


def fork(source: str, target: str, metadata: Mapping[str, Any], *, at: str | int | None = None) -> Plan[None]:
    """Make a session that begins with the events of another, before an offset or position or all of them."""
    yield PlanStep(lambda client: client.session(source).fork(target, at=at, metadata=metadata), writes=True)


def delete(session: str, *, if_match: str | None = None) -> Plan[None]:
    """Delete a session, or only if it still ends at an offset; nothing happens if there is none."""
    try:
        yield PlanStep(lambda client: client.session(session).delete(if_match=if_match), writes=True)
    except NotFoundError:
        pass


def put_artifact(data: bytes, media_type: str = "application/json") -> Plan[Artifact]:
    """Store bytes under their digest."""
    artifact: Artifact = yield PlanStep(lambda client: client.artifacts.put(data, media_type), writes=True)
    return artifact


def get_artifact(sha256: str) -> Plan[bytes]:
    """Read bytes by their digest."""
    data: bytes = yield PlanStep(lambda client: client.artifacts.get(sha256))
    return data


def _query(words: str) -> str:
    """Return words as a query in which none of them is syntax."""
    return " ".join(f'"{word}"' for word in re.findall(r"\w+", words))


def _batches(names: Iterable[str]) -> Iterable[list[str]]:
    """Yield names in groups that fit into a request line."""
    some: list[str] = []
    size = 0
    for name in names:
        length = len(quote(name, safe="")) + len("slot=&")
        if some and (len(some) >= NAMES_PER_REQUEST or size + length > NAMES_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(name)
        size += length
    if some:
        yield some


def memory(scope: str) -> Plan[list[dict[str, Any]]]:
    """Read the live entries of a memory scope; none if nothing was written there."""
    try:
        found: list[dict[str, Any]] = yield PlanStep(lambda client: client.memory.get(scope, limit=10_000))
    except NotFoundError:
        return []
    return found
