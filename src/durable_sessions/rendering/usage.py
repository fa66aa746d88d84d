"""What a run has used, by its own account."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from durable_sessions.rendering import lenses
from durable_sessions.rendering.events import Event, number, text_member
from durable_sessions.rendering.text import one_line

MODELS_MAX = 32


@dataclass(slots=True)
class UsageTotals:
    """Sums over the model requests of a session."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    models: list[str] = field(default_factory=list)
    _last: tuple[str | None, Mapping[str, Any]] = (None, {})

    def add(self, event: Event) -> None:
        """Count an event, if it is the end of a model request."""
        if event.get("type") != "span.model_request_end":
            self._add_lensed(event)
            return
        tokens = event.get("model_usage")
        self._count(tokens if isinstance(tokens, dict) else {}, 1)
        cost = cost_of(event)
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        model = one_line(text_member(event, "model"), 80)
        if model and model not in self.models and len(self.models) < MODELS_MAX:
            self.models.append(model)

    def _add_lensed(self, event: Event) -> None:
        """Count the model request that an adapter's event tells of; of a request the last event counts."""
        told = lenses.usage(event)
        if told is None:
            return
        request, tokens = told
        if request is not None and request == self._last[0]:
            self._count(self._last[1], -1)
        self._count(tokens, 1)
        self._last = told

    def _count(self, tokens: Mapping[str, Any], times: int) -> None:
        self.requests += times
        self.input_tokens += times * number(tokens.get("input_tokens"))
        self.output_tokens += times * number(tokens.get("output_tokens"))
        self.cache_read_tokens += times * number(tokens.get("cache_read_input_tokens"))
        self.cache_write_tokens += times * number(tokens.get("cache_creation_input_tokens"))

    @property
    def prompt_tokens(self) -> int:
        """All tokens that went in, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


def cost_of(event: Event) -> float | None:
    """Return what a model request has cost in dollars, if the event says it."""
    usage = event.get("model_usage")
    for holder in (event, usage if isinstance(usage, dict) else {}):
        cost = holder.get("cost_usd")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:
            return float(cost)
    return None
