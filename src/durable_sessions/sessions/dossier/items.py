"""What a dossier takes from single events: the members of its items, by section."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.fold import said
from durable_sessions.sessions.graph.happened import CALLS, RESULTS, SESSION_ERROR, Happened

Said = dict[str, Any]
"""The members of an item beside its refs."""
Take = Callable[[Happened, Limits], Said | None]
"""Returns what a section says of an event, None if it has nothing to do with it."""

_LOST = frozenset({"lost", "failed"})


class _Tool(msgspec.Struct):
    schema_sha256: msgspec.Raw = lenient.NULL
    mcp_server_name: msgspec.Raw = lenient.NULL


class _Failure(msgspec.Struct):
    error: msgspec.Raw = lenient.NULL
    message: msgspec.Raw = lenient.NULL


class _Changed(msgspec.Struct):
    effects: msgspec.Raw = lenient.NULL


_TOOL = msgspec.json.Decoder(_Tool)
_FAILURE = msgspec.json.Decoder(_Failure)
_CHANGED = msgspec.json.Decoder(_Changed)


def bounded(value: msgspec.Raw, limits: Limits) -> msgspec.Raw:
    """Return a copy of a value; null if it is large: then it is in the event only."""
    data = bytes(value)
    return lenient.NULL if len(data) > limits.dossier_value_bytes_max else msgspec.Raw(data)


def _name(text: str | None, limits: Limits) -> str | None:
    return None if text is None else text[: limits.graph_name_max]


# Calls and results ----------------------------------------------------------------------


def call(happened: Happened, limits: Limits) -> Said | None:
    """Return the name and the input of a call."""
    if happened.type not in CALLS:
        return None
    members = happened.members
    return {"name": _name(members.text("name"), limits), "input": bounded(members.input, limits)}


def logged_call(happened: Happened, limits: Limits) -> Said | None:
    """Return a call; whether it failed is known when its result comes."""
    said_ = call(happened, limits)
    return None if said_ is None else said_ | {"is_error": None}


def action(happened: Happened, limits: Limits) -> Said | None:
    """Return a call, and what it may change."""
    said_ = call(happened, limits)
    if said_ is None:
        return None
    return said_ | {"effect": happened.members.text("effect") or "unknown", "is_error": None}


def domain_tool(happened: Happened, limits: Limits) -> Said | None:
    """Return the tool that a call is of, if it says which schema the tool had."""
    if happened.type not in CALLS:
        return None
    tool = _read(_TOOL, happened)
    digest = None if tool is None else lenient.text(tool.schema_sha256)
    if tool is None or not digest:
        return None
    server = _name(lenient.text(tool.mcp_server_name), limits)
    name = _name(happened.members.text("name"), limits)
    return {"name": name, "mcp_server_name": server, "schema_sha256": _name(digest, limits)}


def state_delta(happened: Happened, limits: Limits) -> Said | None:
    """Return the effects that a result reports."""
    if happened.type not in RESULTS:
        return None
    found = _read(_CHANGED, happened)
    if found is None or bytes(found.effects)[:1] != b"[" or bytes(found.effects).strip() == b"[]":
        return None
    return {"effects": bounded(found.effects, limits)}


# Strict events --------------------------------------------------------------------------


def artifact(*roles: str) -> Take:
    """Return what takes the artifacts of some roles."""

    def take(happened: Happened, limits: Limits) -> Said | None:
        event = happened.strict
        if isinstance(event, schemas.ArtifactAttached) and event.role in roles:
            return {"name": event.name, "sha256": event.sha256}
        return None

    return take


def command(happened: Happened, limits: Limits) -> Said | None:
    """Return the command of an evaluation."""
    event = happened.strict
    if isinstance(event, schemas.Evaluation) and event.command is not None:
        return {"command": event.command}
    return None


def command_result(happened: Happened, limits: Limits) -> Said | None:
    """Return how the command of an evaluation ended."""
    event = happened.strict
    if isinstance(event, schemas.Evaluation) and event.command is not None:
        return {"verdict": event.verdict, "exit_code": event.exit_code}
    return None


def metrics(happened: Happened, limits: Limits) -> Said | None:
    """Return the metrics of an evaluation."""
    event = happened.strict
    if isinstance(event, schemas.Evaluation) and event.metrics:
        return {"metrics": event.metrics}
    return None


def judgement(happened: Happened, limits: Limits) -> Said | None:
    """Return a verdict, or the decision on a request for approval."""
    event = happened.strict
    if isinstance(event, schemas.Evaluation):
        return {"verdict": event.verdict, **_given(event, "feature", "score", "command", "exit_code", "note")}
    if isinstance(event, schemas.ApprovalDecided):
        return {"decision": event.decision, "request": event.request, "reason": event.reason}
    return None


def decision(happened: Happened, limits: Limits) -> Said | None:
    """Return a decision, or a route."""
    event = happened.strict
    if isinstance(event, schemas.Fact) and event.kind == "decision":
        return {"key": event.key, "value": bounded(event.value, limits)}
    if isinstance(event, schemas.Routed):
        return {"to": event.to, "reason": event.reason}
    return None


def checkpoint(happened: Happened, limits: Limits) -> Said | None:
    """Return a checkpoint."""
    return _all(happened) if isinstance(happened.strict, schemas.Checkpoint) else None


def placement(happened: Happened, limits: Limits) -> Said | None:
    """Return where the work ran."""
    event = happened.strict
    if isinstance(event, schemas.SandboxReported):
        return {"sandbox": event.sandbox, "backend": event.backend, "status": event.status}
    return None


def sandbox(happened: Happened, limits: Limits) -> Said | None:
    """Return all that was said of a sandbox."""
    return _all(happened) if isinstance(happened.strict, schemas.SandboxReported) else None


def memory_update(happened: Happened, limits: Limits) -> Said | None:
    """Return what was remembered, or rolled back."""
    is_update = isinstance(happened.strict, schemas.MemoryWritten | schemas.MemoryRolledBack)
    return memory(happened, limits) if is_update else None


def memory(happened: Happened, limits: Limits) -> Said | None:
    """Return what was written to a memory scope, read there, or rolled back."""
    if not isinstance(happened.strict, schemas.MemoryWritten | schemas.MemoryRead | schemas.MemoryRolledBack):
        return None
    return {"action": happened.type.rpartition(".")[2]} | dict(_all(happened))


def failure(happened: Happened, limits: Limits) -> Said | None:
    """Return what went wrong: an error, a failed result, a failing verdict, a trip, or a sandbox."""
    event = happened.strict
    if happened.type == SESSION_ERROR:
        found = _read(_FAILURE, happened) or _Failure()
        error = found.message if found.error == lenient.NULL else found.error
        return {"failure": "error", "error": bounded(error, limits)}
    if happened.type in RESULTS and happened.members.failed:
        return {"failure": "result", "content": bounded(happened.members.content, limits)}
    if isinstance(event, schemas.Evaluation) and event.verdict == "fail":
        return {"failure": "verdict", **_given(event, "feature", "command", "exit_code", "note")}
    if isinstance(event, schemas.BudgetTripped):
        return {"failure": "budget", "limit": event.limit, "max": event.max, "value": event.value}
    if isinstance(event, schemas.SandboxReported) and event.status in _LOST:
        named = {"sandbox": event.sandbox, "status": event.status}
        return {"failure": "sandbox", **named, **_given(event, "reason", "exit_code")}
    return None


TAKEN: dict[str, Take] = {
    "repository_state": artifact("repo_state"),
    "patch": artifact("diff"),
    "test_command": command,
    "test_result": lambda happened, limits: (
        command_result(happened, limits) or artifact("test_log")(happened, limits)
    ),
    "tool_calls": call,
    "placement": placement,
    "memory_update": memory_update,
    "inputs": artifact("input"),
    "experiment_state": checkpoint,
    "tool_logs": logged_call,
    "decisions": decision,
    "metrics": metrics,
    "memory": memory,
    "policy": artifact("policy"),
    "domain_tools": domain_tool,
    "action_log": action,
    "state_deltas": state_delta,
    "risk_checks": judgement,
    "sandbox_metadata": sandbox,
    "validation_result": judgement,
    "failure_analysis": failure,
}
"""What sections take from events; the task, rejected branches and reliability are not of single events."""
PAIRED = frozenset({"tool_calls", "tool_logs", "action_log"})
"""Sections whose items are calls, which rest on their results, too."""


def _given(event: schemas.StrictEvent, *names: str) -> Mapping[str, Any]:
    """Return the members of an event that have a value."""
    values = ((name, getattr(event, name)) for name in names)
    return {name: value for name, value in values if value is not None}


def _all(happened: Happened) -> Said:
    assert happened.strict is not None
    found: Said = msgspec.json.decode(said(happened.strict), type=dict[str, msgspec.Raw])
    return {name: msgspec.Raw(bytes(value)) for name, value in found.items()}


def _read(decoder: "msgspec.json.Decoder[Any]", happened: Happened) -> Any:
    """Return members of a free event; None if it cannot be read."""
    try:
        return lenient.decode(decoder, happened.body)
    except (msgspec.MsgspecError, RecursionError):
        return None
