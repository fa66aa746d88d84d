"""Lenses: what the objects that adapters store mean in our words.

An adapter's event has the framework's object in ``raw``, and says its format in ``raw_format``. A lens is a
pure function from that object to the members of an event of ours: its type, content, tool, error. Search,
transcripts, exports and contexts look through it. What is stored is not changed, and control never looks
through a lens: budgets and stops count what is said in our own words.
"""

from collections.abc import Callable, Mapping
from typing import Any

from durable_sessions.rendering.lenses import adk, agent_framework, claude, openai, pydantic_ai
from durable_sessions.rendering.lenses.meaning import Meaning, said
from durable_sessions.server_members import SERVER_MEMBERS

VERSION = 1
"""What indexes made of texts depend on."""

LENSES: Mapping[str, Callable[[Mapping[str, Any]], Meaning | None]] = {
    "adk.event/1": adk.event,
    "agent-framework.message/1": agent_framework.message,
    "claude.entry/1": claude.entry,
    "claude.sub_entry/1": claude.entry,
    "openai.item/1": openai.item,
    "pydantic.entry/1": pydantic_ai.entry,
}
BOOKKEEPING = (
    "adk.forgotten",
    "adk.state",
    "agent-framework.checkpoint",
    "agent-framework.deleted",
    "claude.summary",
    "claude.deleted",
    "langgraph.blob",
    "langgraph.checkpoint",
    "langgraph.item_deleted",
    "langgraph.pruned",
    "openai.retracted",
    "openai.cleared",
    "pydantic.record",
)
"""Types by which adapters find things again, and which say nothing to a person or a model."""

_WRITE = "langgraph.write/1"


def seen(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an event of an adapter as what it means, with its envelope; None if there is no lens for it.

    ``call_id`` of a tool call is the id that its result names: the framework's, not that of the event.
    """
    if event.get("raw_format") == _WRITE:
        return _write(event)
    meant = meaning(event)
    if meant is None:
        return None
    kept = {name: value for name, value in event.items() if name not in ("raw", "raw_format", "slot", "type")}
    return {**kept, **meant}


def as_meant(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event of an adapter as what it means, any other as it is; a call has the id that its result
    names.
    """
    meant = seen(event)
    if meant is None:
        return event
    call = meant.pop("call_id", None)
    return {**meant, "id": call} if isinstance(call, str) else meant


def meaning(event: Mapping[str, Any]) -> Meaning | None:
    """Return what the object in an event of an adapter means, None if there is no lens for it."""
    form = event.get("raw_format")
    if form == _WRITE:
        return _written(event)
    lens = LENSES.get(form) if isinstance(form, str) else None
    raw = event.get("raw")
    if lens is None or not isinstance(raw, dict):
        return None
    try:
        return lens(raw)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # whatever it is, it is shown as it is stored


def _write(event: Mapping[str, Any]) -> dict[str, Any] | None:
    meant = _written(event)
    if meant is None:
        return None
    kept = {name: value for name, value in event.items() if name in SERVER_MEMBERS}
    return {**kept, **meant}


def _written(event: Mapping[str, Any]) -> Meaning | None:
    """Return what a node of LangGraph wrote: its texts, beside what only its serializer can read."""
    text = event.get("text")
    return said("agent", text) if isinstance(text, str) else None
