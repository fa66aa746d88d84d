"""Tool calls and their results, and the subagents that they start."""

from dataclasses import dataclass
from typing import Any

from durable_sessions.importers.codex.context import CodexContext, CurrentCodexRecord
from durable_sessions.importers.codex.messages import Words
from durable_sessions.importers.codex.outputs import read_output
from durable_sessions.importers.events import Event, arguments, first_text, items, text, text_block, without

CALLS = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
    "tool_search_call",
    "image_generation_call",
)
OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output", "local_shell_call_output")
_SPAWNING = "spawn_agent"
_VIEWING = "view_image"
_DRAWING = ("image_generation_call", "image_generation_end")
_TAKEN = ("arguments", "input", "action")
_OWN_NAMESPACE = "multi_agent"


@dataclass(slots=True)
class _Call:
    event_id: str
    name: str
    is_mcp: bool
    prompt: str
    result_id: str | None = None


class CodexCalls:
    """Makes events of calls and outputs, and links them."""

    def __init__(self, context: CodexContext, words: Words) -> None:
        self._context = context
        self._words = words
        self._calls: dict[str, _Call] = {}
        self._sent: set[str] = set()

    def event_of(self, call_id: object) -> str | None:
        """Return the event of a call."""
        call = self._calls.get(text(call_id))
        return call.event_id if call else None

    def call(self, now: CurrentCodexRecord, kind: str) -> list[Event]:
        """Map a call."""
        events = self._words.flush_prompt() + self._words.flush_early()
        payload = now.payload
        call_id = first_text((payload.get("call_id"), payload.get("id"), now.key))
        server, name = _server_and_name(payload, kind)
        given = (
            {"input": payload.get("input")}
            if kind == "custom_tool_call"
            else arguments(payload.get("arguments", payload.get("action")))
        )
        event = self._context.event(
            "agent.mcp_tool_use" if server else "agent.tool_use",
            now,
            call_id=call_id,
            name=name,
            mcp_server_name=server,
            input=given,
            source_detail=without(payload, *_TAKEN, *(("result",) if kind in _DRAWING else ())),
        )
        self._context.has_viewed_image |= name == _VIEWING
        prompt = text(given.get("message")) or text(given.get("prompt"))
        call = self._calls[call_id] = _Call(event["id"], name, server is not None, prompt)
        return [*events, event, *self._image(now, call_id, call)]

    def _image(self, now: CurrentCodexRecord, call_id: str, call: _Call) -> list[Event]:
        """Return the result that an image call contains itself."""
        image = now.payload.get("result")
        if now.payload.get("type") not in _DRAWING or not isinstance(image, str) or not image:
            return []
        source = {"type": "base64", "media_type": "image/png", "data": image}
        result = self._context.event(
            "agent.tool_result",
            now,
            "result",
            call_id=call_id,
            tool_use_id=call.event_id,
            name=call.name,
            content=[{"type": "image", "source": source}],
            is_error=False,
        )
        call.result_id = result["id"]
        return [result]

    def generated(self, now: CurrentCodexRecord) -> list[Event]:
        """Map the end of an image call, which may contain the image if the call itself does not."""
        call_id = text(now.payload.get("call_id"))
        call = self._calls.get(call_id)
        if call and not call.result_id and (result := self._image(now, call_id, call)):
            return result
        event_id = call.event_id if call else None
        return self._context.keep(now, "event image_generation_end", tool_use_id=event_id)

    def output(self, now: CurrentCodexRecord) -> list[Event]:
        """Map the output of a call."""
        events, context, payload = self._words.flush_prompt(), self._context, now.payload
        call_id = text(payload.get("call_id"))
        call = self._calls.get(call_id)
        # The output of a search for tools is the list of them, in a member of its own.
        given = payload.get("output", payload.get("tools"))
        output = read_output(given)
        is_mcp = call is not None and call.is_mcp
        result = context.event(
            "agent.mcp_tool_result" if is_mcp else "agent.tool_result",
            now,
            call_id=call_id or None,
            **{"mcp_tool_use_id" if is_mcp else "tool_use_id": call.event_id if call else call_id},
            name=call.name if call else None,
            content=output.content,
            is_error=output.is_error,
            exit_code=output.exit_code,
            orphan=None if call else True,
            supersedes=call.result_id if call else None,
            source_output=given if output.wrapped else None,
            source_detail=without(payload, "output", "tools"),
        )
        context.request_since = now.at
        events.append(result)
        if call is None:
            context.tally.notes["results without a call"] += 1
            return events
        # All later results supersede the first one; an image may have come with the call itself.
        call.result_id = call.result_id or result["id"]
        if call.name == _SPAWNING and isinstance(given, str):
            spawned = arguments(given)
            events += self._started(
                now, call_id, first_text((spawned.get("agent_id"), spawned.get("thread_id")))
            )
        return events

    def _started(self, now: CurrentCodexRecord, call_id: str, agent: str) -> list[Event]:
        """Return the message that started a subagent, once for each call."""
        call = self._calls.get(call_id)
        if call is None or not agent or call_id in self._sent:
            return []
        self._sent.add(call_id)
        return [
            self._context.named(
                f"sent {call_id}",
                "agent.thread_message_sent",
                now,
                call_id=call_id,
                to_session_thread_id=agent,
                tool_use_id=call.event_id,
                content=[text_block(call.prompt)] if call.prompt else [],
            )
        ]

    def activity(self, now: CurrentCodexRecord) -> list[Event]:
        """Map the activity of a subagent."""
        payload = now.payload
        call_id = first_text((payload.get("event_id"), payload.get("call_id")))
        # That a subagent was started is told by the output of the call, by this event and by a turn item, or
        # by some of them, depending on the version: the first one makes the message.
        events = self._started(now, call_id, text(payload.get("agent_thread_id")))
        return events + self._context.keep(now, "event sub_agent_activity")

    def turn_item(self, now: CurrentCodexRecord, item: dict[str, Any]) -> list[Event]:
        """Map a turn item that is not a message: details of a tool call beside its output."""
        events, kind = self._words.flush_prompt(), text(item.get("type"))
        if kind == "CollabAgentToolCall":
            for agent in items(item.get("receiver_thread_ids")):
                events += self._started(now, text(item.get("id")), text(agent))
        call = self.event_of(item.get("id"))
        return events + self._context.keep(now, f"turn item {kind}".strip(), tool_use_id=call)


def _server_and_name(payload: dict[str, Any], kind: str) -> tuple[str | None, str]:
    """Return the MCP server of a call, None if it has none, and the name of the tool."""
    name = text(payload.get("name")) or kind.removesuffix("_call")
    server = text(payload.get("namespace")).removeprefix("mcp__").strip("_")
    # Depending on the version the name is "server__tool", "mcp__server__tool", or the server is in a
    # namespace beside it. Codex's own tools for subagents have a namespace too, but no server.
    if server:
        return (None if server.startswith(_OWN_NAMESPACE) else server), name
    if "__" in name.strip("_"):
        server, _, name = name.removeprefix("mcp__").partition("__")
    return server or None, name
