"""What a model should see next: the durable tier of a session, and as many of its newest events as fit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.rendering import lenses
from durable_sessions.schema_notes import Offset, Whole, about
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.folded_session import CompactedRange, Goal, KnownFact, LastCheckpoint
from durable_sessions.sessions.graph.schemas import ContextCompacted, See
from durable_sessions.sessions.graph.state import (
    ShownFact,
    ShownOutcome,
    ShownRequest,
    pending,
    shown_checkpoint,
    shown_facts,
    shown_outcome,
)

ESTIMATE = "bytes/4"
BYTES_PER_TOKEN = 4
_LEFT_OUT = ("span.", "session.", "ds.", *lenses.BOOKKEEPING)
"""Bookkeeping, which a model does not see unless it is asked for."""


class ContextPreamble(msgspec.Struct):
    """What no compaction drops: it is in every context, whole."""

    goal: Goal | None
    facts: dict[str, ShownFact]
    outcome: ShownOutcome | None
    approvals: Annotated[list[ShownRequest], about("Requests that wait for a decision.")]
    handoff: Annotated[dict[str, Any] | None, about("The checkpoint of the last reset, or null.")]


class ContextItem(msgspec.Struct, omit_defaults=True):
    """An event, a hit of the query, or a summary in place of a compacted range."""

    kind: Literal["event", "found", "summary"]
    event: Annotated[
        dict[str, Any] | msgspec.UnsetType,
        about("As it is stored; an adapter's has `lens`, what it means, in place of `raw`."),
    ] = msgspec.UNSET
    score: Annotated[float | msgspec.UnsetType, about("Of a hit, and of its pair.")] = msgspec.UNSET
    id: Annotated[str | msgspec.UnsetType, about("The event with the summary.")] = msgspec.UNSET
    from_: Annotated[int | msgspec.UnsetType, about("A position.")] = msgspec.field(
        name="from", default=msgspec.UNSET
    )
    to: Annotated[int | msgspec.UnsetType, about("The position behind the range.")] = msgspec.UNSET
    text: Annotated[str | msgspec.UnsetType, about("The summary.")] = msgspec.UNSET


class SessionContext(msgspec.Struct):
    """The context for the next turn; ``items`` are in the order of their positions."""

    session: str
    offset: Offset
    estimate: Annotated[str, about("How tokens are counted.", enum=[ESTIMATE])]
    budget_tokens: Whole
    tokens: Annotated[Whole, about("Bytes of the JSON of `preamble` and `items`, divided by 4, rounded up.")]
    preamble: msgspec.Raw
    items: list[msgspec.Raw]
    event_ids: list[str]
    omitted: Annotated[Whole, about("How many events, of any type, lie before the ones that fit.")]
    open_calls: Annotated[list[str], about("Calls that have no result yet; they are in no item.")]


@dataclass(frozen=True, slots=True)
class ContextWish:
    """What the context is asked for.

    ``types`` are exact, or end in ``.*``; without any, all but bookkeeping. ``hits`` are what a query found,
    as positions with scores, the best first.
    """

    budget_tokens: int
    types: tuple[str, ...] = ()
    sees_all: bool = False
    hits: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ContextSight:
    """Which events may be in a context: those from ``start`` on, the ``last`` of them, of these types."""

    start: int
    last: int | None
    selects: Callable[[str], bool]


def sight(fold: Fold, wish: ContextWish) -> ContextSight:
    """Return what may be seen: behind the last reset, and no more than the route says."""
    see = _see(fold, wish)
    start = fold.folded.context_from
    if see is None:
        return ContextSight(start, None, _selection(wish.types, None))
    return ContextSight(max(start, see.from_ or 0), see.last, _selection(wish.types, see.types))


def preamble(fold: Fold, wish: ContextWish, handoff: LastCheckpoint | None) -> bytes:
    """Return the durable tier as JSON."""
    see = _see(fold, wish)
    folded = fold.folded
    facts = folded.facts if see is None or see.facts is None else _narrowed(folded.facts, see.facts)
    return msgspec.json.encode(
        ContextPreamble(
            folded.goal or folded.first_message,
            shown_facts(facts),
            shown_outcome(fold.control.outcome),
            pending(fold),
            None if handoff is None else shown_checkpoint(handoff),
        )
    )


def tokens(size: int) -> int:
    """Return how many tokens this many bytes are, about."""
    return -(-size // BYTES_PER_TOKEN)


def event_item(event: bytes) -> bytes:
    """Return an event as an item."""
    return b'{"kind":"event","event":%b}' % event


def found_item(event: bytes, score: float) -> bytes:
    """Return an event that a query found, or the other half of its pair, as an item."""
    return b'{"kind":"found","event":%b,"score":%b}' % (event, f"{score:.6g}".encode())


def summary_item(compacted: CompactedRange, event: bytes, start: int, stop: int) -> bytes:
    """Return the summary of a range as an item; the range may have been widened."""
    said = strict.read("ds.context.compacted", event)
    text = said.summary if isinstance(said, ContextCompacted) else strict.ERASED_TEXT
    return msgspec.json.encode(ContextItem("summary", id=compacted.id, from_=start, to=stop, text=text))


def _see(fold: Fold, wish: ContextWish) -> See | None:
    route = fold.control.core.route
    return None if wish.sees_all or route is None else route.see


def _selection(asked: tuple[str, ...], routed: list[str] | None) -> Callable[[str], bool]:
    if not asked and routed is None:
        return lambda kind: not kind.startswith(_LEFT_OUT)
    if routed is None:
        return _matcher(asked)
    if not asked:
        return _matcher(tuple(routed))
    is_asked, is_routed = _matcher(asked), _matcher(tuple(routed))
    return lambda kind: is_asked(kind) and is_routed(kind)


def _matcher(types: tuple[str, ...]) -> Callable[[str], bool]:
    exact = frozenset(types)
    prefixes = tuple(kind[:-1] for kind in types if kind.endswith(".*"))
    return lambda kind: kind in exact or (bool(prefixes) and kind.startswith(prefixes))


def _narrowed(facts: Mapping[str, KnownFact], keys: list[str]) -> dict[str, KnownFact]:
    exact = frozenset(keys)
    prefixes = tuple(key[:-1] for key in keys if key.endswith("*"))
    return {
        key: fact
        for key, fact in facts.items()
        if key in exact or (bool(prefixes) and key.startswith(prefixes))
    }
