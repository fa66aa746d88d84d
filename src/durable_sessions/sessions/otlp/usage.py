"""The end of a model request, from the attributes of a span or a record."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.sessions.otlp.naming import event_id

_INPUT = ("gen_ai.usage.input_tokens", "input_tokens", "llm.token_count.prompt", "input_token_count")
_OUTPUT = ("gen_ai.usage.output_tokens", "output_tokens", "llm.token_count.completion", "output_token_count")
_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "cached_token_count",
)
_WRITTEN = ("gen_ai.usage.cache_creation.input_tokens", "cache_creation_tokens")
_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "model", "llm.model_name")
_TTFT = ("gen_ai.response.time_to_first_chunk_ms", "ttft_ms")
_WHOLE = ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "input_token_count")
"""Counts of input that include what came from a cache; ours do not."""


def model_request(
    session: str, run: str, start_ms: int, said: Mapping[str, Any], *, failed: bool
) -> dict[str, Any]:
    """Return ``span.model_request_end``; told by a span and by a log, it has one id and is one event."""
    read, written = _number(said, _READ), _number(said, _WRITTEN)
    given = _number(said, _INPUT)
    if any(name in said for name in _WHOLE):
        given = max(0, given - read - written)
    used = {
        "input_tokens": given,
        "output_tokens": _number(said, _OUTPUT),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    event: dict[str, Any] = {
        "id": event_id(session, "request", run, start_ms, *used.values()),
        "type": "span.model_request_end",
        "model_usage": used,
        "is_error": failed,
    }
    if model := next((said[name] for name in _MODEL if isinstance(said.get(name), str)), None):
        event["model"] = model
    if any(name in said for name in _TTFT):
        event["ttft_ms"] = _number(said, _TTFT)
    if isinstance(cost := said.get("cost_usd"), int | float) and cost >= 0:
        event["cost_usd"] = cost
    reasons = said.get("gen_ai.response.finish_reasons")
    if isinstance(reasons, list) and reasons and isinstance(reasons[0], str):
        event["stop_reason"] = reasons[0]
    return event


def has_usage(said: Mapping[str, Any]) -> bool:
    """Say whether any tokens are told."""
    return any(name in said for name in (*_INPUT, *_OUTPUT))


def _number(said: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        try:
            return max(0, int(said[name]))
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return 0
