"""The log of an evaluation as Inspect reads it (EvalLog, version 2): a session is one sample.

What was said, called and returned are the messages of the sample; the verdicts on features are its scores.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.exporters.plain import plain_text
from durable_sessions.rendering.events import CALLS, Event, call_of, decode, encode_whole, text_member
from durable_sessions.rendering.lenses import as_meant
from durable_sessions.rendering.text import one_line, whole
from durable_sessions.rendering.usage import UsageTotals

VERSION = 2
SCORES_MAX = 1_000
HELD_CALLS_MAX = 1_000
_LONG_AGO = "1970-01-01T00:00:00.000Z"
_UNKNOWN = "unknown"
_VALUES = {"pass": "C", "fail": "I"}
"""Inspect's words for correct and incorrect; what is neither is a score without a value."""
_STATUSES = {"completed": "success", "cancelled": "cancelled", "failed": "error", "timed_out": "error"}


class _Sample:
    """Makes messages of events, each as soon as it is whole, and keeps scores until the end."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] | None = None
        self._names: OrderedDict[str, str] = OrderedDict()
        self.input: str | None = None
        self.goal: str | None = None
        self.last_answer = ""
        self.scores: dict[str, dict[str, Any]] = {}
        self.usage: dict[str, UsageTotals] = {}
        self.features: list[str] = []
        self.outcome: str | None = None
        self.reason = ""
        self.started_at: str | None = None
        self.completed_at: str | None = None

    def take(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield the messages that are whole with an event."""
        kind = text_member(event, "type")
        self.started_at = self.started_at or text_member(event, "created_at") or None
        self.completed_at = text_member(event, "created_at") or self.completed_at
        if kind in ("user.message", "system.message"):
            yield from self.rest()
            text = plain_text(event.get("content"))
            if kind == "user.message" and self.input is None:
                self.input = text
            yield {"id": _id(event), "role": kind.partition(".")[0], "content": text}
        elif kind == "agent.message":
            # Another message behind calls is another answer of the model.
            if self._answer is not None and self._answer["tool_calls"]:
                yield from self.rest()
            answer = self._answered(event)
            text = plain_text(event.get("content"))
            answer["content"] = f"{answer['content']}\n\n{text}" if answer["content"] else text
        elif kind in CALLS:
            self._called(event)
        elif (call := call_of(event)) is not None:
            yield from self.rest()
            yield self._returned(event, call)
        else:
            self._note(kind, event)

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield the answer of the model that was not whole yet."""
        if self._answer is not None:
            answer, self._answer = self._answer, None
            self.last_answer = answer["content"] or self.last_answer
            yield answer

    def _answered(self, event: Event) -> dict[str, Any]:
        if self._answer is None:
            self._answer = {"id": _id(event), "role": "assistant", "content": "", "tool_calls": []}
        return self._answer

    def _called(self, event: Event) -> None:
        name, given = one_line(text_member(event, "name"), 200) or _UNKNOWN, event.get("input")
        call = text_member(event, "id")
        said = {
            "id": call,
            "function": name,
            "arguments": given if isinstance(given, dict) else {} if given is None else {"input": given},
        }
        self._answered(event)["tool_calls"].append(said)
        self._names[call] = name
        if len(self._names) > HELD_CALLS_MAX:
            # Calls that never get a result would be kept for ever; the oldest one is the least likely to get
            # one.
            self._names.popitem(last=False)

    def _returned(self, event: Event, call: str) -> dict[str, Any]:
        text = plain_text(event.get("content"))
        message: dict[str, Any] = {"id": _id(event), "role": "tool", "content": text, "tool_call_id": call}
        if (name := self._names.pop(call, None)) is not None:
            message["function"] = name
        if event.get("is_error") is True:
            message["error"] = {"type": _UNKNOWN, "message": one_line(text, 500)}
        return message

    def _note(self, kind: str, event: Event) -> None:
        if kind == "ds.evaluation" and len(self.scores) < SCORES_MAX:
            self._scored(event)
        elif kind == "ds.fact" and event.get("kind") == "goal" and self.goal is None:
            self.goal = whole(str(event.get("value")))
        elif kind == "ds.outcome.defined" and isinstance(event.get("features"), list):
            features = (one.get("text") for one in event["features"][:SCORES_MAX] if isinstance(one, dict))
            self.features = [whole(text) for text in features if isinstance(text, str)]
        elif kind == "ds.session.ended":
            self.outcome, self.reason = text_member(event, "outcome"), text_member(event, "reason")
        elif kind == "span.model_request_end":
            model = one_line(text_member(event, "model"), 200) or _UNKNOWN
            # A log may name any number of models; beyond the limit no new ones are counted.
            if model in self.usage or len(self.usage) < SCORES_MAX:
                self.usage.setdefault(model, UsageTotals()).add(event)

    def _scored(self, event: Event) -> None:
        verdict = text_member(event, "verdict")
        score: dict[str, Any] = {"value": _VALUES.get(verdict, "N")}
        if note := text_member(event, "note"):
            score["explanation"] = whole(note)
        about = {name: event.get(name) for name in ("command", "exit_code", "score", "metrics")}
        known = {name: value for name, value in about.items() if value is not None}
        by = {"event": text_member(event, "id"), "by": text_member(event, "actor")}
        score["metadata"] = {"verdict": verdict, **by, **known}
        self.scores[one_line(text_member(event, "feature"), 100) or "session"] = score


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return one log."""
    sample = _Sample()
    name = one_line(str(session.get("id") or "session"), 200)
    yield b'{"version":%d,"samples":[{"id":%b,"epoch":1,"messages":[' % (VERSION, encode_whole(name))
    separator = b"\n"
    for line in lines:
        for message in sample.take(as_meant(decode(line))):
            yield separator + encode_whole(message)
            separator = b",\n"
    for message in sample.rest():
        yield separator + encode_whole(message)
    yield b"\n]," + encode_whole(_sample(sample))[1:] + b"],"
    yield encode_whole(_log(sample, session, name))[1:] + b"\n"


def _sample(sample: _Sample) -> dict[str, Any]:
    """Return what is known of the sample behind its messages."""
    said: dict[str, Any] = {
        "input": sample.goal or sample.input or "",
        "target": sample.features or "",
        "scores": sample.scores,
        "model_usage": {model: _usage(used) for model, used in sample.usage.items()},
        "output": {"model": next(iter(sample.usage), _UNKNOWN), "completion": sample.last_answer},
        "metadata": {},
    }
    if sample.started_at is not None:
        said |= {"started_at": _time(sample.started_at), "completed_at": _time(sample.completed_at)}
    return said


def _log(sample: _Sample, session: Session, name: str) -> dict[str, Any]:
    agent = session.get("agent")
    agent = agent if isinstance(agent, dict) else {}
    model = agent.get("model")
    model = model.get("id") if isinstance(model, dict) else model
    model = model if isinstance(model, str) and model else next(iter(sample.usage), _UNKNOWN)
    closed = "success" if session.get("lifecycle") in ("closed", "archived") else "started"
    status = _STATUSES.get(sample.outcome or "", closed)
    metadata = {"exported_by": "durable-sessions", "session": name, "title": session.get("title")}
    log: dict[str, Any] = {
        "status": status,
        "eval": {
            "created": _time(session.get("created_at")),
            "task": one_line(str(session.get("title") or name), 200),
            "task_id": name,
            "dataset": {"name": name, "samples": 1, "sample_ids": [name]},
            "model": one_line(model, 200),
            "config": {},
            "metadata": metadata,
        },
        "plan": {},
        "results": {
            "total_samples": 1,
            "completed_samples": int(status == "success"),
            "scores": [_score(feature, score) for feature, score in sample.scores.items()],
        },
        "stats": {
            "started_at": _time(sample.started_at),
            "completed_at": _time(sample.completed_at),
            "model_usage": {used: _usage(total) for used, total in sample.usage.items()},
        },
    }
    if status == "error":
        message = whole(sample.reason) or f"The session ended as {sample.outcome}."
        log["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    return log


def _score(feature: str, score: dict[str, Any]) -> dict[str, Any]:
    value = 1.0 if score["value"] == "C" else 0.0
    metrics = {"accuracy": {"name": "accuracy", "value": value}}
    return {"name": feature, "scorer": "ds.evaluation", "metrics": metrics}


def _usage(used: UsageTotals) -> dict[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.prompt_tokens + used.output_tokens,
        "input_tokens_cache_write": used.cache_write_tokens,
        "input_tokens_cache_read": used.cache_read_tokens,
    }


def _time(value: object) -> str:
    return value if isinstance(value, str) and value else _LONG_AGO


def _id(event: Event) -> str:
    return whole(text_member(event, "id"))
