"""What one flush writes and changes, as plain data, before anything is written to the bucket."""

from collections.abc import Iterable
from datetime import date

import msgspec

from durable_sessions.bucket.checkpoint import EncodedCheckpoint
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.bucket.records import split_by_date
from durable_sessions.bucket.segment import EncodedSegment, encode_segment
from durable_sessions.storage import batch
from durable_sessions.streams.state import ColdStreams
from durable_sessions.tier import segment_contents, stream_codec
from durable_sessions.tier.checkpoints import encode_changes
from durable_sessions.tier.disposal import empty
from durable_sessions.tier.fold import fold
from durable_sessions.tier.packed_rows import pack

_NO_PATH = ""
"""The path of a segment that has none yet."""


class FlushSegment(msgspec.Struct, frozen=True):
    """The segment of one day: its bytes, its entry in the manifest without a path, and where its records are.

    ``record_bytes`` is their size before compression; ``runs`` are consecutive records, packed.
    """

    day: date
    data: bytes
    info: SegmentInfo
    record_bytes: int
    runs: list[bytes]


class FlushContents(msgspec.Struct, frozen=True):
    """Segments and a checkpoint, as bytes, and the streams, removals, names and erasures behind them.

    ``subscriptions`` are the effects on subscriptions and on the outbox, as a batch. ``states`` are the
    streams that changed, encoded; ``tails`` are their tails. ``names``, ``erased`` and ``slots`` are packed.
    ``next_stream`` is a number that no stream has ever had. ``version`` is the least that the manifest must
    have.
    """

    segments: list[FlushSegment]
    checkpoint: EncodedCheckpoint
    subscriptions: bytes
    states: list[bytes]
    tails: dict[int, int]
    removed: list[int]
    names: list[bytes]
    erased: list[bytes]
    slots: list[bytes]
    next_stream: int
    version: int


def flush_contents(batches: Iterable[bytes], cold: ColdStreams, next_stream: int) -> FlushContents:
    """Apply batches of the log to the streams as of the previous flush; slow, so not for the event loop."""
    folded = fold(batches, cold, next_stream)
    state = folded.state
    days = split_by_date(folded.records())
    states = [stream_codec.encode(stream) for stream in state.by_id.values()]
    contents = FlushContents(
        segments=[_segment(day, encode_segment(records)) for day, records in days.items()],
        checkpoint=encode_changes(state, states),
        subscriptions=b"".join(map(batch.encode, folded.subscriptions)),
        states=states,
        tails={stream.id: stream.tail for stream in state.by_id.values()},
        removed=list(state.removed),
        names=pack(folded.names()),
        erased=pack(folded.erased_there()),
        slots=pack(folded.slots_there()),
        next_stream=state.next_stream,
        version=folded.version,
    )
    empty(days, folded.runs, state.streams, state.by_id, folded.named)
    return contents


def _segment(day: date, encoded: EncodedSegment) -> FlushSegment:
    record_bytes, runs = segment_contents.held(encoded.directory)
    return FlushSegment(day, encoded.data, encoded.info(_NO_PATH), record_bytes, pack(runs))
