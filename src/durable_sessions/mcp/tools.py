"""The tools that read."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal, NotRequired

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from typing_extensions import TypedDict

from durable_sessions.client import AsyncSession, Hit, SessionInfo
from durable_sessions.client.errors import ConflictError, NotFoundError, PermissionDeniedError
from durable_sessions.client.event import Event
from durable_sessions.client.memory_calls import RecalledMemory
from durable_sessions.mcp.failures import explained_to_model, no_session
from durable_sessions.mcp.past import Past
from durable_sessions.mcp.shown import Shown, ShownEvent, fitting, size_of

Role = Literal["user", "agent", "tool", "system", "error"]
SessionId = Annotated[str, Field(description="The id of a session.", min_length=1, max_length=200)]
Types = Annotated[
    list[str] | None,
    Field(
        description="Only these types of events, such as agent.tool_result, or a family: agent.*",
        max_length=50,
    ),
]
Moment = Annotated[
    str | None, Field(description="A time such as 2026-11-18T09:00:00Z, or a day.", max_length=50)
]
Scope = Annotated[
    str | None, Field(description="The scope of memory, such as project:calc or user:ann.", max_length=210)
]
_SNIPPET_CHARACTERS_MAX = 600
_TITLE_CHARACTERS_MAX = 200
_MESSAGE_CHARACTERS_MAX = 400
_WORD_CONTEXT = 200
"""So many characters stand on each side of the first match in a snippet that is made anew."""


class FoundEvent(TypedDict):
    """An event that matches, and where it is."""

    session_id: str
    title: str | None
    position: int
    id: str
    type: str
    at: str
    snippet: str
    score: float


class FoundEvents(TypedDict):
    """The best matches; ``total`` counts all, also those of sessions that are not shown."""

    hits: list[FoundEvent]
    total: int
    up_to_date: bool


class ReadEvents(TypedDict):
    """Events in their order; read on at ``next_position``, null at the end."""

    session_id: str
    events: list[ShownEvent]
    next_position: int | None


class EventPart(TypedDict):
    """A part of the JSON text of one event; put the parts together to have all of it."""

    session_id: str
    id: str
    position: int
    text: str
    part: int
    parts: int


class ListedSession(TypedDict):
    """A session, and what its user said last."""

    id: str
    title: str | None
    events: int
    updated: str
    metadata: dict[str, Any]
    last_user_message: str


class ListedSessions(TypedDict):
    """Sessions, those with the newest events first."""

    sessions: list[ListedSession]
    more: bool


class RecalledEntry(TypedDict):
    """What a session has learned, and the events that are its evidence."""

    key: str
    value: Any
    kind: str
    why: str
    id: str
    session_id: str | None
    because: list[dict[str, Any]]
    confidence: NotRequired[float]
    cut: NotRequired[bool]


class RecalledEntries(TypedDict):
    """Entries of memory; ``recorded`` says whether the current session has a record of this read."""

    scope: str
    entries: list[RecalledEntry]
    recorded: bool


class ReadingTools:
    """Tools that look at the past and change nothing."""

    def __init__(self, past: Past, shown: Shown) -> None:
        self._past = past
        self._shown = shown

    @explained_to_model
    async def search_events(
        self,
        query: Annotated[
            str,
            Field(
                description='Words, "a phrase", +must, -not, prefix*, name:bash, is:error.',
                min_length=1,
                max_length=2_000,
            ),
        ],
        session_id: Annotated[str | None, Field(description="Only in this session.")] = None,
        role: Annotated[Role | None, Field(description="Only what these said.")] = None,
        types: Types = None,
        after: Moment = None,
        before: Moment = None,
        limit: Annotated[int, Field(ge=1, le=30)] = 10,
        include_current: Annotated[
            bool, Field(description="Also in the session you are working in.")
        ] = False,
    ) -> FoundEvents:
        """Search everything that was said and done, in all sessions or in one: the best matches first.

        Then call read_around with the position of a hit.
        """
        hits, total, up_to_date = await self._past.search(
            query,
            session_id,
            limit,
            with_current=include_current,
            role=role,
            types=types,
            after=after,
            before=before,
        )
        # In a thread: hits may be whole outputs of tools, and each is rendered to make its snippet.
        found = await asyncio.to_thread(lambda: [self._hit(info, hit) for info, hit in hits])
        return {"hits": fitting(found, self._shown.room), "total": total, "up_to_date": up_to_date}

    @explained_to_model
    async def read_events(
        self,
        session_id: SessionId,
        from_position: Annotated[int, Field(description="Begin here; 0 is the first event.", ge=0)] = 0,
        tail: Annotated[
            int | None, Field(description="Instead: only this many of the last events.", ge=1, le=100)
        ] = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
        types: Types = None,
    ) -> ReadEvents:
        """Read the events of a session in their order. Go on at next_position."""
        handle, _ = await self._past.session(session_id)
        if tail is None:
            # One more than is shown, to know whether anything follows.
            return await self._page(
                handle, handle.events(from_=from_position, types=types, limit=limit + 1, lens=True), limit
            )
        return await self._page(handle, handle.events(tail=tail, types=types, lens=True), tail)

    @explained_to_model
    async def read_around(
        self,
        session_id: SessionId,
        position: Annotated[int, Field(ge=0)],
        window: Annotated[int, Field(description="So many events on each side.", ge=0, le=30)] = 6,
    ) -> ReadEvents:
        """Read the events around a position; a tool call is never without its result."""
        handle, _ = await self._past.session(session_id)
        # Pairs that are kept whole may make the window longer than asked.
        near = handle.events(around=position, window=window, pairs="keep", lens=True)
        return await self._page(handle, near, 10 * (window + 1))

    @explained_to_model
    async def read_event(
        self,
        session_id: SessionId,
        event_id: Annotated[str, Field(min_length=1, max_length=300)],
        part: Annotated[int, Field(description="Which part of it; 0 is the first.", ge=0)] = 0,
    ) -> EventPart:
        """Read one event whole, as JSON text, in several parts if it is long."""
        handle, _ = await self._past.session(session_id)
        event = await handle.event(event_id)
        parts = await asyncio.to_thread(lambda: self._shown.parts(self._shown.text(event)))
        if part >= len(parts):
            raise ToolError(f"The event has {len(parts)} part(s); the first is 0.")
        return {
            "session_id": session_id,
            "id": event.id,
            "position": event.position,
            "text": parts[part],
            "part": part,
            "parts": len(parts),
        }

    @explained_to_model
    async def list_sessions(
        self,
        q: Annotated[str | None, Field(description="Words in the title or the id.", max_length=500)] = None,
        metadata: Annotated[
            dict[str, str] | None, Field(description="Only sessions with these metadata.", max_length=16)
        ] = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 20,
    ) -> ListedSessions:
        """List sessions, those with the newest events first."""
        found = await self._past.sessions(limit, q, metadata)
        said = await self._past.last_user_messages(found)
        listed = [self._session(info, message) for info, message in zip(found, said, strict=True)]
        chosen = fitting(listed, self._shown.room)
        return {"sessions": chosen, "more": len(chosen) < len(listed) or len(found) == limit}

    @explained_to_model
    async def recall(
        self,
        query: Annotated[str | None, Field(description="Words to look for.", max_length=2_000)] = None,
        key: Annotated[str | None, Field(description="The key of one entry.", max_length=500)] = None,
        scope: Scope = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> RecalledEntries:
        """Recall what earlier sessions have learned: by words, by key, or the newest, with the evidence."""
        chosen = self._past.scope(scope)
        recalled = await self._recalled(chosen, query, key, limit)
        if recalled is None:
            client = self._past.client()
            entries = await client.memory.get(chosen, key=key, q=query, limit=limit)
        else:
            entries = recalled.entries
        shown = fitting([self._entry(one) for one in entries], self._shown.room)
        return {"scope": chosen, "entries": shown, "recorded": recalled is not None}

    async def _recalled(
        self, scope: str, query: str | None, key: str | None, limit: int
    ) -> RecalledMemory | None:
        """Let the current session record the read; None if it cannot, which is no reason to tell nothing."""
        options = self._past.options
        if options.session is None:
            return None
        session = self._past.client().session(options.session, epoch=options.epoch)
        try:
            return await session.recall(query, scope=scope, key=key, limit=limit)
        except (NotFoundError, ConflictError, PermissionDeniedError):
            return None

    async def _page(self, handle: AsyncSession, events: AsyncIterator[Event], limit: int) -> ReadEvents:
        """Return the first events that fit; there are more if the next one is known."""
        chosen: list[ShownEvent] = []
        room = self._shown.room
        next_position = None
        try:
            async for event in events:
                shown = await asyncio.to_thread(self._shown.event, event)
                room -= size_of(shown)
                if len(chosen) == limit or (room < 0 and chosen):
                    next_position = event.position
                    break
                chosen.append(shown)
        except NotFoundError as error:
            raise no_session(handle.id) from error
        return {"session_id": handle.id, "events": chosen, "next_position": next_position}

    def _hit(self, info: SessionInfo, hit: Hit) -> FoundEvent:
        event = hit.event
        snippet = hit.snippet
        if self._shown.clean(event.data) != event.data:
            # A snippet may begin in the middle of a secret, where no pattern finds it: make another one.
            snippet = _excerpt(self._shown.said(event), hit)
        found: FoundEvent = {
            "session_id": info.id,
            "title": self._shown.short(info.title, _TITLE_CHARACTERS_MAX),
            "position": event.position,
            "id": event.id,
            "type": event.type,
            "at": str(event.get("original_created_at") or event["created_at"]),
            "snippet": self._shown.short(snippet, _SNIPPET_CHARACTERS_MAX),
            "score": round(hit.score, 3),
        }
        return self._shown.within(found, "snippet", "title")

    def _session(self, info: SessionInfo, message: str) -> ListedSession:
        metadata: Mapping[str, Any] = info.metadata
        listed: ListedSession = {
            "id": info.id,
            "title": self._shown.short(info.title, _TITLE_CHARACTERS_MAX),
            "events": info.event_count,
            "updated": (info.last_activity_at or info.updated_at).isoformat(timespec="seconds"),
            "metadata": self._shown.short(dict(metadata), _TITLE_CHARACTERS_MAX),
            "last_user_message": self._shown.short(message, _MESSAGE_CHARACTERS_MAX),
        }
        return self._shown.within(listed, "metadata", "last_user_message", "title")

    def _entry(self, entry: dict[str, Any]) -> RecalledEntry:
        shown: RecalledEntry = {
            "key": entry["key"],
            "value": self._shown.short(entry["value"]),
            "kind": entry["kind"],
            "why": entry["why"],
            "id": entry["id"],
            "session_id": entry["session"],
            "because": entry["because"],
        }
        if entry.get("confidence") is not None:
            shown["confidence"] = entry["confidence"]
        shown = self._shown.within(shown, "value", "because")
        is_whole = shown["value"] == self._shown.clean(entry["value"])
        if not is_whole or len(shown["because"]) < len(entry["because"]):
            shown["cut"] = True
        return shown


def _excerpt(text: str, hit: Hit) -> str:
    """Return what surrounds the first match in a text."""
    words = [hit.snippet[start:end] for start, end in hit.highlights]
    at = next((place for word in words if (place := text.find(word)) >= 0), 0)
    return text[max(0, at - _WORD_CONTEXT) : at + _WORD_CONTEXT]
