"""Folds batches of the log into what a flush writes: changed streams, and records by stream."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from durable_sessions.bucket.manifest import NEWER_VERSION, SCOPES_VERSION, VERSION
from durable_sessions.bucket.records import AppendRun, StreamRecords, with_replaced
from durable_sessions.storage import batch
from durable_sessions.streams.effects import (
    Effect,
    ErasedRecord,
    Name,
    OutboxEffect,
    PathFreed,
    RecordsAppended,
    RecordsErased,
    ScopeCreated,
    SlotChange,
    SlotsChanged,
    SubscriptionEffect,
)
from durable_sessions.streams.outbox import without_delivered
from durable_sessions.streams.state import ColdStreams, State
from durable_sessions.streams.stream import Stream

# Built once: a union takes as long as applying an effect.
_COLLECTED = SubscriptionEffect | OutboxEffect
_NEWER = RecordsErased | PathFreed | SlotsChanged


@dataclass(slots=True)
class Folded:
    """The streams that the batches changed, and the records and names that they added.

    ``subscriptions`` are the effects on subscriptions and on the outbox, in order. ``erased`` are the records
    that were erased, each as a stream and a position. ``version`` is the least that the manifest must have.
    """

    state: State
    runs: dict[int, list[AppendRun]] = field(default_factory=dict)
    named: list[tuple[int, Name]] = field(default_factory=list)
    subscriptions: list[Effect] = field(default_factory=list)
    erased: list[tuple[int, int]] = field(default_factory=list)
    slots: list[tuple[int, SlotChange]] = field(default_factory=list)
    version: int = VERSION

    def note(self, effect: Effect) -> None:
        """Note what follows from an effect on a stream that is no append."""
        if isinstance(effect, _NEWER):
            self.version = max(self.version, NEWER_VERSION)
        if isinstance(effect, ScopeCreated):
            self.version = SCOPES_VERSION
        if type(effect) is SlotsChanged:
            self.slots += [(effect.stream, change) for change in effect.changes]
        if type(effect) is RecordsErased:
            self.erased += [(effect.stream, record.position) for record in effect.records]
            self.named += [(effect.stream, name) for name in effect.names]

    def records(self) -> list[StreamRecords]:
        """Return the records of the streams that still exist."""
        found = []
        for number, runs in self.runs.items():
            stream = self.state.by_id.get(number)
            if stream is not None:
                kept = self._without_erased(stream, runs) if stream.overlay else runs
                found.append(StreamRecords(number, *stream.key, stream.content_type, kept))
        return found

    def _without_erased(self, stream: Stream, runs: list[AppendRun]) -> list[AppendRun]:
        """Return appends as they are stored: with what stands in place of erased records."""
        replaced = {one.position: one.data for one in stream.overlay if not self._is_spared(stream, one)}
        return [with_replaced(run, replaced) for run in runs]

    def _is_spared(self, stream: Stream, erased: ErasedRecord) -> bool:
        """Say whether a fork that the erasure spares still shows the record."""
        forks = (self.state.peek_id(fork) for fork in self.state.forks(stream.id) if fork < erased.spares)
        return any(fork is not None and fork.base > erased.position for fork in forks)

    def erased_there(self) -> list[tuple[int, int]]:
        """Return the erased records of the streams that still exist."""
        return [one for one in self.erased if one[0] in self.state.by_id]

    def names(self) -> list[tuple[int, Name]]:
        """Return the names of records, each with its stream, of the streams that still exist."""
        return [(number, name) for number, name in self.named if number in self.state.by_id]

    def slots_there(self) -> list[tuple[int, SlotChange]]:
        """Return what records did with slots, each with its stream, of the streams that still exist."""
        return [one for one in self.slots if one[0] in self.state.by_id]


def fold(batches: Iterable[bytes], cold: ColdStreams, next_stream: int) -> Folded:
    """Apply batches to the state as of the previous flush; slow, so not for the event loop.

    Effects on subscriptions and on the outbox are collected and not applied: a flush writes them unchanged,
    but for entries of the outbox that have been delivered meanwhile.
    """
    state = State(cold)
    state.next_stream = next_stream
    folded = Folded(state)
    runs = folded.runs
    append, make_run = state.append, AppendRun._make
    for payload in batches:
        for effect in batch.effects_of(payload):
            if type(effect) is RecordsAppended:  # nearly all are, so nothing else is looked at for these
                append(effect)
                stream, data = effect.stream, effect.data
                if data:
                    run = make_run((effect.first, effect.at_ms, effect.lengths, data))
                    if stream in runs:
                        runs[stream].append(run)
                    else:
                        runs[stream] = [run]
                    if effect.names:
                        folded.named += [(stream, name) for name in effect.names]
            elif isinstance(effect, _COLLECTED):
                folded.subscriptions.append(effect)
            else:
                state.apply(effect)
                folded.note(effect)
    folded.subscriptions = without_delivered(folded.subscriptions)
    return folded
