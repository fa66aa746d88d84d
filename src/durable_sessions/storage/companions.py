"""Companions of a change: effects that become durable in the same batch as what they are about."""

from collections.abc import Callable, Sequence

from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State

Companion = Callable[[State, int], Sequence[Effect]]
"""Returns the effects that go with a change, such as its record in the audit; streams may be created."""


def accompanied(
    effects: Sequence[Effect], companion: Companion | None, state: State, now_ms: int
) -> list[Effect]:
    """Return the effects of a change that creates no streams, with their companions; of nothing, nothing."""
    if not effects or companion is None:
        return list(effects)
    return [*effects, *companion(state, now_ms)]
