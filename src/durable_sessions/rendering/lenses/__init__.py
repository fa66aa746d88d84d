"""Lenses: what the objects that adapters store mean in our words.

An adapter's event has the framework's object in ``raw``, and says its format in ``raw_format``. A lens is a
pure function from that object to the members of an event of ours: its type, content, tool, error. Search,
transcripts, exports and contexts look through it. What is stored is not changed, and control never looks
through a lens: budgets and stops count what is said in our own words.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from durable_sessions.rendering.lenses import adk, agent_framework, claude, openai, pydantic_ai
from durable_sessions.rendering.lenses.meaning import Meaning, Usage, said
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
_STEPS: Mapping[str, Callable[[Mapping[str, Any]], list[Meaning]]] = {
    "adk.event/1": adk.steps,
    "agent-framework.message/1": agent_framework.steps,
    "claude.entry/1": claude.steps,
    "claude.sub_entry/1": claude.steps,
    "openai.item/1": openai.steps,
    "pydantic.entry/1": pydantic_ai.steps,
}
_USAGE: Mapping[str, Callable[[Mapping[str, Any]], tuple[Any, Usage] | None]] = {
    "adk.event/1": adk.usage,
    "claude.entry/1": claude.usage,
    "claude.sub_entry/1": claude.usage,
    "pydantic.entry/1": pydantic_ai.usage,
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
_CALL_IDS = {"agent.tool_use": "call_id", "agent.tool_result": "tool_use_id"}
_STEPS_LEFT = "steps"
T = TypeVar("T")


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
    if event.get("raw_format") == _WRITE:
        return _written(event)
    return _read(LENSES, event)


def steps(event: Mapping[str, Any]) -> list[Meaning]:
    """Return the tool calls and results in an event of an adapter, which may have several.

    A call has its ``call_id``, and a result names it. Of an erased event they have nothing else.
    """
    if "raw" not in event:
        left = event.get(_STEPS_LEFT)
        return [one for one in left if _is_step(one)] if isinstance(left, list) else []
    found = _read(_STEPS, event) or []
    return [one for one in found if one["type"] in _CALL_IDS]


def usage(event: Mapping[str, Any]) -> tuple[str | None, Usage] | None:
    """Return what a model request used that an event of an adapter tells of, with the id of the request.

    Several events with one id tell of one request, and the last counts; without an id each is one.
    """
    used = _read(_USAGE, event)
    if used is None:
        return None
    request, amounts = used
    return request if isinstance(request, str) else None, amounts


def left_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that stay of an erased event of an adapter, so that no call becomes open again."""
    names = ("type", "call_id", "tool_use_id", "is_error")
    found = [{name: one[name] for name in names if name in one} for one in steps(event) if _is_step(one)]
    return {"raw_format": event["raw_format"], _STEPS_LEFT: found} if found else {}


def _is_step(one: Any) -> bool:
    """Say whether it is a call or a result, by an id."""
    if not isinstance(one, dict) or not isinstance(kind := one.get("type"), str) or kind not in _CALL_IDS:
        return False
    return isinstance(one.get(_CALL_IDS[kind]), str) and isinstance(one.get("is_error", False), bool)


def _read(lenses: Mapping[str, Callable[[Mapping[str, Any]], T]], event: Mapping[str, Any]) -> T | None:
    """Return what a lens of the event's format reads; None if there is none, or if the object is another."""
    form, raw = event.get("raw_format"), event.get("raw")
    lens = lenses.get(form) if isinstance(form, str) else None
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
