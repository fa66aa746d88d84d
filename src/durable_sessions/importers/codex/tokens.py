"""Usage: each model request is counted once, though totals accumulate and records are repeated."""

from typing import Any

from durable_sessions.importers.codex.context import CodexContext, CurrentCodexRecord
from durable_sessions.importers.codex.messages import Words
from durable_sessions.importers.events import Event, count, members, usage


class Tokens:
    """Makes spans from usage records, or from token counts if there are none."""

    def __init__(self, context: CodexContext, words: Words) -> None:
        self._context = context
        self._words = words
        self._totals: dict[str, Any] = {}

    def record(self, now: CurrentCodexRecord) -> list[Event]:
        """Map the usage of one response."""
        return self._used(now, now.payload.get("usage"), {"response_id": now.payload.get("response_id")})

    def count(self, now: CurrentCodexRecord) -> list[Event]:
        """Map a token count: the growth of the total since the last one."""
        info = members(now.payload.get("info"))
        total, last = members(info.get("total_token_usage")), members(info.get("last_token_usage"))
        if self._context.is_paginated:
            return self._context.merge("token count beside its usage record")
        if not total:
            return self._context.keep(now, "token count without usage")
        if total == self._totals:
            return self._context.merge("token count that has not changed")
        # The total grows with every request. It can be smaller than before, when the program has begun anew;
        # then only what the record says of its last request is certain.
        before, self._totals = self._totals, total
        went_on = bool(before) and count(total.get("total_tokens")) >= count(before.get("total_tokens"))
        used = _grown(total, before) if went_on else last or total
        return self._used(now, used, {"info": info, "rate_limits": now.payload.get("rate_limits")})

    def follow(self, payload: dict[str, Any]) -> None:
        """Remember the total of a record that was copied from another session."""
        if payload.get("type") == "token_count":
            total = members(members(payload.get("info")).get("total_token_usage"))
            self._totals = total or self._totals

    def _used(self, now: CurrentCodexRecord, used: object, detail: object) -> list[Event]:
        events, context, counted = self._words.flush_prompt(), self._context, members(used)
        cached = count(counted.get("cached_input_tokens"))
        written = count(counted.get("cache_write_input_tokens"))
        given = count(counted.get("input_tokens")) - cached - written
        model, since = context.about.metadata.get("model"), context.request_since or now.at
        start = context.event("span.model_request_start", now, "start", at=since, model=model)
        end = context.event(
            "span.model_request_end",
            now,
            "end",
            model_request_start_id=start["id"],
            is_error=False,
            model=model,
            model_usage=usage(given, counted.get("output_tokens"), cached, written),
            source_usage=counted,
            source_detail=detail,
        )
        return [*events, start, end]


def _grown(total: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {name: max(0, count(value) - count(before.get(name))) for name, value in total.items()}
