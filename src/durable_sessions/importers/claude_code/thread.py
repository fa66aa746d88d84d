"""One conversation of a Claude Code session: its calls, its model request in flight, and its branches."""

from dataclasses import dataclass, field
from typing import Any

from durable_sessions.importers.events import Event, EventMaker, count, members

CLOSED_REQUESTS_MAX = 64


@dataclass(slots=True)
class ToolCall:
    """A tool call: its event, and its first result."""

    event_id: str
    name: str
    is_mcp: bool
    prompt: str | None = None
    result_id: str | None = None


@dataclass(slots=True)
class ModelRequest:
    """One model request; every line repeats the usage, and the last line counts."""

    key: str
    start_id: str
    model: str | None
    line: int
    at: str | None
    usage: dict[str, Any]
    is_complete: bool = False
    reported: Event | None = None


@dataclass(slots=True)
class ClaudeThread:
    """The state of a thread that is needed to map its next record."""

    id: str | None
    calls: dict[str, ToolCall] = field(default_factory=dict)
    request: ModelRequest | None = None
    closed: dict[str, ModelRequest] = field(default_factory=dict)
    last_command: str | None = None
    boundary: Event | None = None
    begun: bool = False
    branch: int = 0

    def close_request(self, make: EventMaker) -> list[Event]:
        """Return the end of the open model request, if there is one whose usage was not reported yet."""
        request, self.request = self.request, None
        if request is None:
            return []
        self.closed[request.key] = request
        if len(self.closed) > CLOSED_REQUESTS_MAX:
            del self.closed[next(iter(self.closed))]
        now = model_usage(request.usage)
        before = request.reported
        # A request that went on after it was closed reports only what has been added.
        if before is not None:
            rest = {name: max(0, value - before[name]) for name, value in now.items()}
            if not any(rest.values()):
                return []
            now = rest
        request.reported = model_usage(request.usage)
        return [
            make.make(
                "span.model_request_end",
                request.key,
                "end" if before is None else f"end {request.line}",
                at=request.at,
                line=request.line,
                thread=self.id,
                branch=self.branch,
                model_request_start_id=request.start_id,
                is_error=False,
                model=request.model,
                model_usage=now,
                continues=None if before is None else make.id(request.key, "end"),
                source_usage=request.usage,
            )
        ]


def model_usage(usage: dict[str, Any]) -> Event:
    """Return the usage of a request; input excludes the cache, as in the source."""
    created = members(usage.get("cache_creation"))
    total: Event = {
        "input_tokens": count(usage.get("input_tokens")),
        "output_tokens": count(usage.get("output_tokens")),
        "cache_creation_input_tokens": count(usage.get("cache_creation_input_tokens")),
        "cache_read_input_tokens": count(usage.get("cache_read_input_tokens")),
    }
    if not total["cache_creation_input_tokens"]:
        total["cache_creation_input_tokens"] = sum(map(count, created.values()))
    return total
