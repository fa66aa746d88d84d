"""The Agent Trajectory Interchange Format of the Harbor project: one JSON object per session.

A step of the agent is one answer of the model: what it thought, said and called, with the results of the
calls as its observation and the request's tokens as its metrics. Threads other than the primary one are
embedded as trajectories of subagents.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.rendering.content import Picture, parts_of, text_of
from durable_sessions.rendering.entries import entry_of
from durable_sessions.rendering.events import (
    CALLS,
    RESULTS,
    Event,
    call_of,
    decode,
    encode,
    encode_whole,
    happened_ms,
    text_member,
)
from durable_sessions.rendering.lenses import as_meant
from durable_sessions.rendering.text import clean, one_line, whole
from durable_sessions.rendering.usage import UsageTotals
from durable_sessions.times import rfc3339

VERSION = "ATIF-v1.7"
HELD_STEPS_MAX = 1_000
"""How many steps may wait for the result of a call."""
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TOLD = frozenset({"session.error", "agent.thread_context_compacted", "session.thread_created"})
"""Events that become steps of the system."""
_NOTHING = "This session has no messages."


@dataclass(slots=True)
class _Step:
    """A step that may still grow."""

    source: str
    timestamp: str | None
    message: list[str | dict[str, Any]] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    usage: UsageTotals = field(default_factory=UsageTotals)
    model: str = ""
    ended: bool = False
    open_calls: set[str] = field(default_factory=set)

    def plain(self, number_: int) -> dict[str, Any]:
        """Return the step as the format wants it."""
        step: dict[str, Any] = {"step_id": number_, "source": self.source, "message": _joined(self.message)}
        if self.timestamp is not None:
            step["timestamp"] = self.timestamp
        if self.model:
            step["model_name"] = self.model
        if self.reasoning:
            step["reasoning_content"] = "\n\n".join(self.reasoning)
        if self.calls:
            step["tool_calls"] = self.calls
        if self.results:
            step["observation"] = {"results": self.results}
        if self.usage.requests:
            step["metrics"] = _metrics(self.usage)
            step["llm_call_count"] = self.usage.requests
        return step


class _Trajectory:
    """The steps of one thread, returned as soon as they can no longer change."""

    def __init__(self, options: ExportOptions) -> None:
        self._options = options
        self._held: deque[_Step] = deque()
        self._by_call: dict[str, _Step] = {}
        self.count = 0
        self.usage = UsageTotals()

    def take(self, event: Event) -> bool:
        """Add an event; return False if the format cannot represent it."""
        kind = text_member(event, "type")
        if kind in CALLS:
            self._call(event)
        elif kind in RESULTS:
            self._result(event)
        elif kind == "span.model_request_end":
            self._measured(event)
        elif kind == "span.model_request_start":
            self._end_answer()
        elif kind == "agent.thinking":
            self._thought(event)
        elif kind == "agent.message":
            self._answer(event, begins=False).message += self._message(event)
        elif kind in ("user.message", "system.message"):
            self._new(kind.partition(".")[0], event).message += self._message(event)
        elif kind.startswith(("user.", "agent.thread_message")) or kind in _TOLD:
            self._tell(event)
        else:
            return False
        return True

    def finished(self, *, everything: bool = False) -> Iterator[bytes]:
        """Return the steps that can no longer change."""
        while self._held:
            step = self._held[0]
            last = len(self._held) == 1
            # The last step may still grow, and one with open calls waits for their results. But not for ever:
            # an interrupted call never gets a result, and would hold back the whole rest of the session.
            if not everything and (last or (step.open_calls and len(self._held) <= HELD_STEPS_MAX)):
                return
            for call in step.calls:
                # A result that comes later becomes a step of its own: what was written cannot be changed.
                self._by_call.pop(call["tool_call_id"], None)
            self._held.popleft()
            self.count += 1
            yield encode_whole(step.plain(self.count))

    def _new(self, source: str, event: Event) -> _Step:
        at_ms = happened_ms(event)
        self._held.append(_Step(source, None if at_ms is None else rfc3339(at_ms)))
        return self._held[-1]

    def _end_answer(self) -> None:
        if self._held:
            self._held[-1].ended = True

    def _answer(self, event: Event, *, begins: bool) -> _Step:
        """Return the step of the answer that an event of the agent belongs to.

        An answer is over when one of its calls has a result; thinking begins a new one.
        """
        last = self._held[-1] if self._held else None
        if last is None or last.source != "agent" or last.ended or last.results:
            return self._new("agent", event)
        return self._new("agent", event) if begins and (last.message or last.calls) else last

    def _thought(self, event: Event) -> None:
        content = event.get("content") or event.get("thinking") or event.get("text")
        text = text_of(tuple(parts_of(content, prose=True)))
        step = self._answer(event, begins=True)
        if text:
            step.reasoning.append(whole(text))

    def _call(self, event: Event) -> None:
        step = self._answer(event, begins=False)
        name, given = text_member(event, "id"), event.get("input")
        call: dict[str, Any] = {
            "tool_call_id": name,
            "function_name": text_member(event, "name") or "unknown",
            "arguments": given if isinstance(given, dict) else {} if given is None else {"input": given},
        }
        server = text_member(event, "mcp_server_name")
        if server:
            call["extra"] = {"mcp_server_name": server}
        step.calls.append(call)
        step.open_calls.add(name)
        self._by_call[name] = step

    def _result(self, event: Event) -> None:
        call = call_of(event) or ""
        step = self._by_call.get(call)
        result: dict[str, Any] = {"content": _joined(self._message(event, prose=False))}
        if event.get("is_error") is True:
            result["extra"] = {"is_error": True}
        if step is None:  # its call is not there, or too far away
            step = self._new("system", event)
            result.setdefault("extra", {})["result_of"] = call
        else:
            result["source_call_id"] = call
            step.open_calls.discard(call)
        step.results.append(result)

    def _measured(self, event: Event) -> None:
        self.usage.add(event)
        # The tokens are counted when the request is over; by then a result may be the last step already.
        step = next((one for one in reversed(self._held) if one.source == "agent"), None)
        if step is None:
            step = self._new("agent", event)
        step.usage.add(event)
        step.model = one_line(text_member(event, "model"), 200) or step.model
        if step is self._held[-1]:
            step.ended = True

    def _tell(self, event: Event) -> None:
        entry = entry_of(event)
        kind = text_member(event, "type")
        source = "user" if kind.startswith("user.") else "system"
        step = self._new(source, event)
        text = entry.text or entry.line
        step.message.append(text if source == "user" else f"{entry.title}: {text}")
        thread = text_member(event, "session_thread_id")
        if kind == "session.thread_created" and thread:
            step.results.append({"subagent_trajectory_ref": [{"trajectory_id": thread}]})

    def _message(self, event: Event, *, prose: bool = True) -> list[str | dict[str, Any]]:
        content = event.get("content")
        message: list[str | dict[str, Any]] = []
        for block in content if isinstance(content, list) else [content]:
            if block is None:
                continue
            text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
            if isinstance(text, str):  # as it came: this is for programs
                message.append(whole(text))
                continue
            parts = parts_of([block], prose=prose)
            message += [
                self._image(part) if isinstance(part, Picture) else text_of((part,)) for part in parts
            ]
        return message

    def _image(self, picture: Picture) -> str | dict[str, Any]:
        """Return an image by its path; the format cannot embed the bytes."""
        place = (
            f"{self._options.server_url}/v1/artifacts/{picture.artifact}" if picture.artifact else picture.url
        )
        if picture.media_type in _IMAGES and "://" in place:
            return {"type": "image", "source": {"media_type": picture.media_type, "path": place}}
        return f"[{picture.label}]"


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return a trajectory."""
    primary = _Trajectory(options)
    threads: dict[str, tuple[_Trajectory, list[bytes]]] = {}
    names: dict[str, str] = {}
    omitted: Counter[str] = Counter()
    head = {
        "schema_version": VERSION,
        "session_id": clean(str(session.get("id", ""))),
        "agent": _agent(session),
    }
    yield encode(head)[:-1] + b',"steps":['
    separator = b"\n"
    for line in lines:
        event = as_meant(decode(line))
        thread = _thread(event, threads)
        if text_member(event, "type") == "session.thread_created":
            name = text_member(event, "session_thread_id")
            threads.setdefault(name, (_Trajectory(options), []))
            names[name] = text_member(event, "agent_name")
        if thread is not None:
            trajectory, steps = threads[thread]
            if not trajectory.take(event):
                omitted[text_member(event, "type")] += 1
            steps += trajectory.finished()
            continue
        if not primary.take(event):
            omitted[text_member(event, "type")] += 1
        for step in primary.finished():
            yield separator + step
            separator = b",\n"
    for step in primary.finished(everything=True):
        yield separator + step
        separator = b",\n"
    # The format wants at least one step.
    if primary.count == 0:
        primary.count = 1
        yield separator + encode({"step_id": 1, "source": "system", "message": _NOTHING})
    yield b"\n]," + encode({"final_metrics": _final(primary)})[1:-1]
    embedded = [_embedded(name, *threads[name], names.get(name, ""), session) for name in threads]
    if embedded:
        yield b',"subagent_trajectories":[' + b",\n".join(embedded) + b"]"
    yield b"," + encode({"extra": _extra(session, omitted)})[1:] + b"\n"


def _thread(event: Event, threads: dict[str, Any]) -> str | None:
    """Return the thread of an event, if it is one that was created in this session."""
    # They are about a thread, and are read by whoever reads the thread that created it.
    if text_member(event, "type").startswith("session.thread_"):
        return None
    name = text_member(event, "session_thread_id")
    return name if name in threads else None


def _embedded(name: str, trajectory: _Trajectory, steps: list[bytes], agent: str, session: Session) -> bytes:
    steps += trajectory.finished(everything=True)
    if not steps:
        steps = [encode({"step_id": 1, "source": "system", "message": _NOTHING})]
        trajectory.count = 1
    about = _agent(session)
    head = {
        "schema_version": VERSION,
        "session_id": clean(str(session.get("id", ""))),
        "trajectory_id": name,
        "agent": {**about, "name": agent or about["name"]},
        "final_metrics": _final(trajectory),
    }
    return encode(head)[:-1] + b',"steps":[' + b",\n".join(steps) + b"]}"


def _agent(session: Session) -> dict[str, Any]:
    agent = session.get("agent")
    agent = agent if isinstance(agent, dict) else {}
    model = agent.get("model")
    name = model.get("id") if isinstance(model, dict) else model
    shown: dict[str, Any] = {
        "name": one_line(str(agent.get("name") or "unknown"), 200),
        "version": one_line(str(agent.get("version") or "unknown"), 200),
    }
    if isinstance(name, str) and name not in ("", "unknown"):
        shown["model_name"] = one_line(name, 200)
    return shown


def _joined(message: list[str | dict[str, Any]]) -> str | list[dict[str, Any]]:
    if all(isinstance(one, str) for one in message):
        return "\n\n".join(str(one) for one in message)
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in message]


def _metrics(usage: UsageTotals) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    if usage.cost_usd is not None:
        metrics["cost_usd"] = round(usage.cost_usd, 9)
    if usage.cache_write_tokens:
        metrics["extra"] = {"cache_creation_input_tokens": usage.cache_write_tokens}
    return metrics


def _final(trajectory: _Trajectory) -> dict[str, Any]:
    metrics: dict[str, Any] = {"total_steps": trajectory.count}
    usage = trajectory.usage
    if usage.requests:
        metrics |= {
            "total_prompt_tokens": usage.prompt_tokens,
            "total_completion_tokens": usage.output_tokens,
            "total_cached_tokens": usage.cache_read_tokens,
        }
    if usage.cost_usd is not None:
        metrics["total_cost_usd"] = round(usage.cost_usd, 9)
    return metrics


def _extra(session: Session, omitted: Counter[str]) -> dict[str, Any]:
    extra = {name: session[name] for name in ("title", "metadata", "created_at") if session.get(name)}
    counted: Counter[str] = Counter()
    for kind, count in omitted.items():
        counted[one_line(kind, 128)] += count
    return {**extra, **({"omitted_events": dict(sorted(counted.items()))} if counted else {})}
