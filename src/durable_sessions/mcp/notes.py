"""The tools that write; they are there only with ``--write``, and only for keys that may."""

import secrets
from typing import Annotated, Any, Literal

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from typing_extensions import TypedDict

from durable_sessions.client import AsyncSession
from durable_sessions.mcp.failures import explained_to_model, no_session
from durable_sessions.mcp.past import Past
from durable_sessions.mcp.tools import Scope

Because = Annotated[
    list[str] | None,
    Field(description="Ids of events of that session: the evidence.", max_length=60),
]
Target = Annotated[
    str | None, Field(description="The session to write to; the current one if left out.", max_length=200)
]
Why = Literal["tool_result", "human_correction", "failed_attempt", "validation", "reflection"]
Kind = Literal["note", "failure_pattern", "procedure", "preference"]


class WrittenEvent(TypedDict):
    """Where it was written; it is durable."""

    session_id: str
    id: str
    position: int


class WritingTools:
    """Tools that append events, with the evidence for them."""

    def __init__(self, past: Past) -> None:
        self._past = past

    @explained_to_model
    async def append_note(
        self,
        text: Annotated[str, Field(description="What to note.", min_length=1, max_length=16_000)],
        because: Because = None,
        session_id: Target = None,
    ) -> WrittenEvent:
        """Append a note to a session; it can be searched at once."""
        return await self._append(session_id, {"type": "note", "text": text}, because)

    @explained_to_model
    async def record_fact(
        self,
        key: Annotated[str, Field(min_length=1, max_length=200)],
        value: Annotated[Any, Field(description="Any JSON of at most 16 KiB.")],
        because: Because = None,
        session_id: Target = None,
    ) -> WrittenEvent:
        """Record what a session knows from now on: it is in every context; the last value counts."""
        return await self._append(session_id, {"type": "ds.fact", "key": key, "value": value}, because)

    @explained_to_model
    async def remember(
        self,
        key: Annotated[str, Field(min_length=1, max_length=500)],
        value: Annotated[Any, Field(description="Any JSON of at most 16 KiB.")],
        because: Annotated[
            list[str],
            Field(
                description="Ids of events of that session: the evidence.",
                min_length=1,
                max_length=60,
            ),
        ],
        why: Annotated[Why, Field(description="What it was learned from.")] = "reflection",
        kind: Kind = "note",
        scope: Scope = None,
        session_id: Target = None,
    ) -> WrittenEvent:
        """Leave something for later sessions, with the events that are the evidence; recall finds it."""
        said = {"type": "ds.memory.written", "scope": self._past.scope(scope), "key": key, "value": value}
        return await self._append(session_id, {**said, "why": why, "kind": kind}, because)

    async def _append(
        self, session_id: str | None, event: dict[str, Any], because: list[str] | None
    ) -> WrittenEvent:
        session, creates = await self._target(session_id)
        # An id of our own makes the position known, whoever else is writing.
        named = {**event, "id": f"mcp-{secrets.token_hex(8)}"}
        if because:
            named["refs"] = [{"rel": "because", "id": one} for one in because]
        await session.append(named, session={"metadata": self._past.options.only} if creates else None)
        stored = await session.event(named["id"])
        return {"session_id": session.id, "id": stored.id, "position": stored.position}

    async def _target(self, session_id: str | None) -> tuple[AsyncSession, bool]:
        """Return the session to write to, and whether this creates it: only the current one may be new."""
        current = self._past.options.session
        chosen = session_id or current
        if chosen is None:
            raise ToolError("There is no current session: name one with session_id.")
        if chosen != current:
            return (await self._past.session(chosen))[0], False
        client = self._past.client()
        found = client.session(chosen, epoch=self._past.options.epoch)
        if await found.holds({"exists": False}):
            return found, True
        info = await found.info()
        if not self._past.options.admits(info.metadata):
            raise no_session(chosen)
        return found, False
