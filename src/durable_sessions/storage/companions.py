"""Companion effects: they become durable in the same batch as the change that they describe."""

from collections.abc import Callable, Sequence

from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State

Companion = Callable[[State, int], Sequence[Effect]]
"""Returns the effects that accompany a change, such as its audit record; they may create streams."""


def accompanied(
    effects: Sequence[Effect], companion: Companion | None, state: State, now_ms: int
) -> list[Effect]:
    """Return the effects of a change that creates no streams, and their companions; nothing if no effects."""
    if not effects or companion is None:
        return list(effects)
    return [*effects, *companion(state, now_ms)]
