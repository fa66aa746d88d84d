"""What one flush writes and changes, as plain data, before anything is written to the bucket."""

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from durable_sessions.bucket.checkpoint import EncodedCheckpoint
from durable_sessions.bucket.records import split_by_date
from durable_sessions.bucket.segment import EncodedSegment, encode_segment
from durable_sessions.streams.effects import Effect, Name, SlotChange
from durable_sessions.streams.state import ColdStreams
from durable_sessions.streams.stream import Stream
from durable_sessions.tier.checkpoints import encode_changes
from durable_sessions.tier.disposal import empty
from durable_sessions.tier.fold import fold


class FlushContents(NamedTuple):
    """Segments by day and a checkpoint, as bytes, and the streams, removals, names and erasures behind them.

    ``subscriptions`` are the effects on subscriptions and on the outbox, in order. ``next_stream`` is a
    number that no stream has ever had. ``version`` is the least that the manifest must have.
    """

    segments: dict[date, EncodedSegment]
    checkpoint: EncodedCheckpoint
    subscriptions: list[Effect]
    streams: list[Stream]
    removed: list[int]
    names: list[tuple[int, Name]]
    erased: list[tuple[int, int]]
    slots: list[tuple[int, SlotChange]]
    next_stream: int
    version: int


def flush_contents(batches: Iterable[bytes], cold: ColdStreams, next_stream: int) -> FlushContents:
    """Apply batches of the log to the streams as of the previous flush; slow, so not for the event loop."""
    folded = fold(batches, cold, next_stream)
    state = folded.state
    days = split_by_date(folded.records())
    contents = FlushContents(
        segments={day: encode_segment(records) for day, records in days.items()},
        checkpoint=encode_changes(state),
        subscriptions=folded.subscriptions,
        streams=list(state.by_id.values()),
        removed=list(state.removed),
        names=folded.names(),
        erased=folded.erased_there(),
        slots=folded.slots_there(),
        next_stream=state.next_stream,
        version=folded.version,
    )
    empty(days, folded.runs, state.streams, state.by_id, folded.named)
    return contents
