"""Contexts of sessions: what must be in every one, and the newest events that fit, read backwards."""

import msgspec

from durable_sessions.errors import ContextTooSmallError, EventNotFoundError
from durable_sessions.limits import Limits
from durable_sessions.sessions.context_walk import ContextWalk
from durable_sessions.sessions.folds import Folds, boundaries
from durable_sessions.sessions.graph import context
from durable_sessions.sessions.graph.context import ContextWish, SessionContext
from durable_sessions.sessions.graph.context_fill import ContextFill
from durable_sessions.sessions.graph.fold import Fold, said
from durable_sessions.sessions.graph.folded_session import LastCheckpoint
from durable_sessions.sessions.graph.schemas import Checkpoint
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams import offsets

_ARRAY_BYTES = len("[]")


class Contexts:
    """Assembles contexts of the sessions of a partition."""

    def __init__(self, streams: Streams, reader: EventReader, folds: Folds, limits: Limits) -> None:
        self._streams = streams
        self._reader = reader
        self._folds = folds
        self._limits = limits

    async def at(self, durable: StreamView, at: int, wish: ContextWish) -> SessionContext:
        """Return what a model should see after the first ``at`` events; the same each time."""
        fold = await self._folds.at(durable, at)
        preamble = context.preamble(fold, wish, await self._handoff(durable, fold))
        base = len(preamble) + _ARRAY_BYTES
        if context.tokens(base) > wish.budget_tokens:
            raise ContextTooSmallError(needed=context.tokens(base))
        size_max = min(wish.budget_tokens * context.BYTES_PER_TOKEN, self._limits.context_bytes_max)
        fill = ContextFill(size_max - base)
        sight = context.sight(fold, wish)
        crossings = boundaries(self._streams, durable)
        walk = ContextWalk(self._reader, durable, fold, sight, crossings, fill)
        if sight.last is None:
            await walk.add_found(wish.hits)
        omitted = await walk.run()
        turn = self._reader.turns.begin()
        items: list[msgspec.Raw] = []
        names: list[str] = []
        size = base
        for event, item in fill:
            size += len(item) + (1 if items else 0)
            items.append(msgspec.Raw(item))
            names.append(event)
            if turn.over:
                await turn.rest()
        return SessionContext(
            session_of(durable.stream.key),
            offsets.encode(at),
            context.ESTIMATE,
            wish.budget_tokens,
            context.tokens(size),
            msgspec.Raw(preamble),
            items,
            names,
            omitted,
            list(fold.folded.open_calls),
        )

    async def _handoff(self, durable: StreamView, fold: Fold) -> LastCheckpoint | None:
        """Return the checkpoint that the context was reset to."""
        name = fold.folded.reset_to
        if name is None:
            return None
        try:
            position, event = await self._reader.by_id(durable, name)
        except EventNotFoundError:
            return None  # a trusted import may name any
        checkpoint = happened(event, position, fold.control.core.checked_from)
        if not isinstance(checkpoint.strict, Checkpoint):
            return None
        return LastCheckpoint(
            checkpoint.id, position, checkpoint.at_ms, checkpoint.actor, said(checkpoint.strict)
        )
