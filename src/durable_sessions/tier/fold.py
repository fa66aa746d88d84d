"""Folds batches of the log into what a flush writes: changed streams, and records by stream."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.storage import batch
from durable_sessions.streams.effects import (
    Effect,
    Name,
    OutboxEffect,
    RecordsAppended,
    SubscriptionEffect,
)
from durable_sessions.streams.outbox import without_delivered
from durable_sessions.streams.state import ColdStreams, State


@dataclass(slots=True)
class Folded:
    """The streams that the batches changed, and the records and names that they added.

    ``subscriptions`` are the effects on subscriptions and on the outbox, in order.
    """

    state: State
    runs: dict[int, list[AppendRun]] = field(default_factory=dict)
    named: list[tuple[int, Name]] = field(default_factory=list)
    subscriptions: list[Effect] = field(default_factory=list)

    def records(self) -> list[StreamRecords]:
        """Return the records of the streams that still exist."""
        found = []
        for number, runs in self.runs.items():
            stream = self.state.by_id.get(number)
            if stream is not None:
                found.append(StreamRecords(number, *stream.key, stream.content_type, runs))
        return found

    def names(self) -> list[tuple[int, Name]]:
        """Return the names of records, each with its stream, of the streams that still exist."""
        return [(number, name) for number, name in self.named if number in self.state.by_id]


def fold(batches: Iterable[bytes], cold: ColdStreams, next_stream: int) -> Folded:
    """Apply batches to the state as of the previous flush; slow, so not for the event loop.

    Effects on subscriptions and on the outbox are collected and not applied: a flush writes them unchanged,
    but for entries of the outbox that have been delivered meanwhile.
    """
    state = State(cold)
    state.next_stream = next_stream
    folded = Folded(state)
    runs = folded.runs
    for payload in batches:
        for effect in batch.effects_of(payload):
            if isinstance(effect, SubscriptionEffect | OutboxEffect):
                folded.subscriptions.append(effect)
                continue
            state.apply(effect)
            if type(effect) is RecordsAppended and effect.data:
                run = AppendRun(effect.first, effect.at_ms, effect.lengths, effect.data)
                if effect.stream in runs:
                    runs[effect.stream].append(run)
                else:
                    runs[effect.stream] = [run]
                if effect.names:
                    folded.named += [(effect.stream, name) for name in effect.names]
    folded.subscriptions = without_delivered(folded.subscriptions)
    return folded
