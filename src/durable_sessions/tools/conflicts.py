"""Effects that contradict the state before them, and what replaces them.

A server never writes contradictions. But where batches are lost, later ones may depend on them. The rule is:
**positions never move, and nothing that can be read is dropped**. A lost record is replaced by a marker at
its position; only what belongs nowhere is dropped.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from durable_sessions.bucket.records import AppendRun
from durable_sessions.errors import LogEffectUnknownError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage import batch
from durable_sessions.streams import content
from durable_sessions.streams.effects import (
    Acked,
    Effect,
    ErasuresSettled,
    Linked,
    OutboxAdded,
    OutboxDelivered,
    OutboxEffect,
    PathFreed,
    RecordsAppended,
    RecordsErased,
    SlotsChanged,
    StreamCreated,
    StreamDescribed,
    StreamRemoved,
    StreamTold,
    StreamTouched,
    SubscriptionCreated,
    SubscriptionEffect,
    SubscriptionRemoved,
    Unlinked,
    WakeEnded,
    Woken,
)
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscriptions import Config, Subscription, SubscriptionKey

LOST_MESSAGE = b'{"type":"durable_sessions.lost"}'
"""The marker for a lost JSON message; in other streams, lost bytes become zeros."""

LOST_AND_FOUND = "lost-and-found"
"""The path prefix of streams whose own path is lost."""


class Mended(NamedTuple):
    """The effects that replace an effect, already applied; without a ``problem``, the effect itself.

    ``marked`` lists stream, first and next position of records that markers replace. ``repeated`` says that
    leaving out an effect loses nothing, because the state contains it already.
    """

    effects: Sequence[Effect]
    problem: str | None = None
    marked: Sequence[tuple[int, int, int]] = ()
    repeated: bool = False


class Undecodable(NamedTuple):
    """Bytes of a batch that cannot be decoded as an effect."""

    problem: str


def decode_leniently(payload: bytes) -> Iterator[tuple[int, Effect | Undecodable]]:
    """Yield the offset of each effect of a batch, and the effect or its problem."""
    at = 0
    while at < len(payload):
        length = int.from_bytes(payload[at : at + 4], "little")
        encoded = payload[at : at + 4 + length]
        if len(encoded) < 4 + length:
            yield at, Undecodable(f"the batch ends within an effect of {length} bytes")
            return
        try:
            yield at, batch.decode_one(encoded)
        except (msgspec.MsgspecError, ValueError, LogEffectUnknownError) as error:
            reason = error.fields["problem"] if isinstance(error, LogEffectUnknownError) else error
            problem = f"an effect cannot be decoded ({reason}); a newer program may have written it"
            yield at, Undecodable(problem)
        at += len(encoded)


def markers(first: int, following: int, at_ms: int, *, json: bool) -> Iterator[AppendRun]:
    """Yield markers for lost records, in appends of bounded size."""
    most = DEFAULT_LIMITS.append_messages_max if json else DEFAULT_LIMITS.append_body_bytes_max
    while first < following:
        count = min(following - first, most)
        if json:
            message = LOST_MESSAGE + b","
            yield AppendRun(first, at_ms, (len(message),) * count, message * count)
        else:
            yield AppendRun(first, at_ms, (), bytes(count))
        first += count


def clipped(run: AppendRun, first: int, following: int) -> AppendRun:
    """Return the part of an append between two positions."""
    skip, take = max(first - run.first, 0), min(following, run.next) - run.first
    if not run.lengths:
        return AppendRun(run.first + skip, run.at_ms, (), run.data[skip:take])
    ends = list(accumulate(run.lengths, initial=0))
    return AppendRun(run.first + skip, run.at_ms, run.lengths[skip:take], run.data[ends[skip] : ends[take]])


def mend(state: State, effect: Effect, home: str = LOST_AND_FOUND) -> Mended:
    """Apply an effect or its replacement, and return what was done and why.

    ``home`` is the workspace for streams whose own workspace is lost.
    """
    if isinstance(effect, RecordsAppended):
        mended = _append(state, effect, home)
    elif isinstance(effect, StreamCreated):
        mended = _create(state, effect)
    elif isinstance(effect, StreamRemoved):
        mended = _remove(state, effect)
    elif isinstance(effect, PathFreed):
        mended = _free_path(state, effect)
    elif isinstance(effect, SlotsChanged):
        mended = _change_slots(state, effect)
    elif isinstance(effect, StreamTouched | StreamDescribed | RecordsErased | ErasuresSettled):
        known = state.get_id(effect.stream) is not None
        mended = Mended([effect]) if known else _dropped(f"stream {effect.stream} does not exist")
    elif isinstance(effect, OutboxEffect):
        mended = _outbox(state, effect)
    elif isinstance(effect, StreamTold):
        mended = Mended([effect])  # it replaces what was told before
    else:
        mended = _subscription(state, effect)
    for one in mended.effects:
        state.apply(one)
    return mended


def fill_acknowledged(state: State) -> Mended:
    """Add markers for records that a subscription has acknowledged but that are lost.

    Otherwise their positions would be reused, and the subscription would never see the new records there.
    """
    effects: list[Effect] = []
    marked: list[tuple[int, int, int]] = []
    for subscription in list(state.subscriptions):
        for link in subscription.links.values():
            stream = None if link.stream is None else state.get_id(link.stream)
            if stream is not None and not stream.closed and stream.tail < link.acked:
                marked.append((stream.id, stream.tail, link.acked))
                for filler in _fillers(stream, link.acked, stream.recorded_at_ms):
                    effects.append(filler)
                    state.apply(filler)
    problem = "records that a subscription has acknowledged are lost" if effects else None
    return Mended(effects, problem, marked)


def _dropped(reason: str) -> Mended:
    return Mended((), reason)


def _fillers(stream: Stream, following: int, at_ms: int) -> list[RecordsAppended]:
    runs = markers(stream.tail, following, at_ms, json=stream.is_json)
    return [
        RecordsAppended(stream.id, run.first, at_ms, run.lengths, None, None, False, run.data) for run in runs
    ]


# Streams --------------------------------------------------------------------------------


def _append(state: State, effect: RecordsAppended, home: str) -> Mended:
    stream = state.get_id(effect.stream)
    if stream is None:
        return _find_again(state, effect, home)
    if effect.data and (
        bool(effect.lengths) != stream.is_json or sum(effect.lengths) not in (0, len(effect.data))
    ):
        return _dropped("the lengths of its messages do not add up")
    if effect.first < stream.tail or (stream.closed and effect.next <= stream.tail):
        if effect.next <= stream.tail:
            return Mended((), f"the stream already reaches to {stream.tail}", repeated=True)
        whole = AppendRun(effect.first, effect.at_ms, effect.lengths, effect.data)
        first, _, lengths, data = clipped(whole, stream.tail, effect.next)
        names = tuple(name for name in effect.names if name.first >= first)
        rest = msgspec.structs.replace(effect, first=first, lengths=lengths, data=data, names=names)
        return Mended([rest], f"its records before {stream.tail} are there already")
    if stream.closed:
        return _dropped(f"the stream was closed at {stream.tail}")
    if effect.first == stream.tail:
        return Mended([effect])
    return Mended(
        [*_fillers(stream, effect.first, effect.at_ms), effect],
        f"the records {stream.tail} to {effect.first} before it are lost",
        [(stream.id, stream.tail, effect.first)],
    )


def _find_again(state: State, effect: RecordsAppended, home: str) -> Mended:
    """Append records of a stream whose creation is lost, and with it its path, to a stream at a new path."""
    key = Key(home, f"{LOST_AND_FOUND}/{effect.stream}")
    if effect.stream in state.removed:
        return Mended((), f"stream {effect.stream} was removed", repeated=True)
    if not effect.data or state.get(key) is not None:
        return _dropped(f"stream {effect.stream} does not exist")
    json = bool(effect.lengths)
    content_type = "application/json" if json else content.DEFAULT
    created = StreamCreated(effect.stream, *key, content_type, effect.at_ms)
    fillers = [
        RecordsAppended(effect.stream, run.first, run.at_ms, run.lengths, None, None, False, run.data)
        for run in markers(0, effect.first, effect.at_ms, json=json)
    ]
    return Mended(
        [created, *fillers, effect],
        f"the creation of stream {effect.stream} is lost; it is found again as {key.path}",
        [(effect.stream, 0, effect.first)] if effect.first else [],
    )


def _create(state: State, effect: StreamCreated) -> Mended:
    if effect.stream in state.removed or state.get_id(effect.stream) is not None:
        return Mended((), f"stream {effect.stream} was created before", repeated=True)
    before: list[Effect] = []
    problems: list[str] = []
    there = state.get(Key(effect.workspace, effect.path))
    if there is not None:
        if there.id > effect.stream:
            state.removed[effect.stream] = there.key
            return Mended((), f"its path has been used again since, by stream {there.id}", repeated=True)
        if there.forks and not there.soft_deleted:
            return _dropped(f"its path is taken by stream {there.id}, which has forks")
        before.append(PathFreed(there.id) if there.forks else StreamRemoved(there.id))
        problems.append(f"the removal of stream {there.id} from this path is lost")
    if effect.parent is None:
        return Mended([*before, effect], "; ".join(problems) or None)
    return _create_fork(state, effect, before, problems)


def _create_fork(state: State, effect: StreamCreated, before: list[Effect], problems: list[str]) -> Mended:
    assert effect.parent is not None
    parent = state.get_id(effect.parent)
    if parent is None:
        alone = msgspec.structs.replace(effect, parent=None, base=0, fork_at_tail=False)
        json = content.is_json(effect.content_type)
        fillers = [
            RecordsAppended(effect.stream, run.first, run.at_ms, run.lengths, None, None, False, run.data)
            for run in markers(0, effect.base, effect.created_at_ms, json=json)
        ]
        problems.append(f"stream {effect.parent}, which it was forked from, is lost")
        marked = [(effect.stream, 0, effect.base)] if effect.base else []
        return Mended([*before, alone, *fillers], "; ".join(problems), marked)
    if parent.tail < effect.base:
        problems.append(f"the records {parent.tail} to {effect.base} of its source are lost")
        marked = [(parent.id, parent.tail, effect.base)]
        return Mended(
            [*before, *_fillers(parent, effect.base, effect.created_at_ms), effect],
            "; ".join(problems),
            marked,
        )
    return Mended([*before, effect], "; ".join(problems) or None)


def _remove(state: State, effect: StreamRemoved) -> Mended:
    stream = state.get_id(effect.stream)
    if stream is None:
        removed = effect.stream in state.removed
        return Mended((), f"stream {effect.stream} does not exist", repeated=removed)
    if stream.forks and not effect.soft:
        soft = [] if stream.soft_deleted else [StreamRemoved(stream.id, soft=True)]
        return Mended(soft, "the removal of its forks is lost, and they still need its records")
    if effect.soft and not stream.forks:
        return Mended([StreamRemoved(stream.id)], "it has no forks that would need its records")
    return Mended([effect])


def _change_slots(state: State, effect: SlotsChanged) -> Mended:
    stream = state.get_id(effect.stream)
    if stream is None:
        return _dropped(f"stream {effect.stream} does not exist")
    changes = tuple(change for change in effect.changes if change.position < stream.tail)
    if changes == effect.changes:
        return Mended([effect])
    return Mended(
        [msgspec.structs.replace(effect, changes=changes)] if changes else (), "its records are lost"
    )


def _free_path(state: State, effect: PathFreed) -> Mended:
    stream = state.get_id(effect.stream)
    if stream is None or stream.freed:
        return Mended((), f"the path of stream {effect.stream} is free", repeated=True)
    if stream.soft_deleted:
        return Mended([effect])
    if not stream.forks:
        return Mended([StreamRemoved(stream.id)], "its removal is lost")
    return Mended([StreamRemoved(stream.id, soft=True), effect], "its removal is lost")


# The outbox -----------------------------------------------------------------------------


def _outbox(state: State, effect: OutboxEffect) -> Mended:
    if isinstance(effect, OutboxAdded) and effect.number < state.outbox.next_number:
        return Mended((), f"entry {effect.number} of the outbox was added before", repeated=True)
    if isinstance(effect, OutboxDelivered) and effect.through >= state.outbox.next_number:
        return Mended([effect], "entries of the outbox that were delivered are not in the log")
    return Mended([effect])


# Subscriptions --------------------------------------------------------------------------


def _subscription(state: State, effect: SubscriptionEffect) -> Mended:
    assert not isinstance(effect, StreamTold)
    there = state.subscriptions.get(SubscriptionKey(effect.workspace, effect.id))
    if isinstance(effect, SubscriptionCreated):
        return _subscribe(there, effect)
    if there is None:
        return _dropped(f"subscription {effect.id} does not exist")
    if isinstance(effect, SubscriptionRemoved | Linked):
        return Mended([effect])
    if isinstance(effect, Unlinked):
        paths = tuple([path for path in effect.paths if path in there.links])
        return _narrowed(effect, msgspec.structs.replace(effect, paths=paths) if paths else None)
    if isinstance(effect, Woken):
        if there.wake is None:
            return Mended([effect])
        ended = WakeEnded(*there.key)
        return Mended([ended, effect], "the end of the wake before it is lost")
    if there.wake is None:
        return _dropped("no wake is in flight")
    if isinstance(effect, Acked):
        acks = {path: acked for path, acked in effect.acks.items() if path in there.links}
        return _narrowed(effect, msgspec.structs.replace(effect, acks=acks))
    return Mended([effect])


def _subscribe(there: Subscription | None, effect: SubscriptionCreated) -> Mended:
    try:
        msgspec.json.decode(effect.config, type=Config)
    except (msgspec.MsgspecError, ValueError) as error:
        return _dropped(f"its configuration is malformed: {error}")
    if there is None:
        return Mended([effect])
    return Mended([SubscriptionRemoved(*there.key), effect], "the removal of the one before it is lost")


def _narrowed(effect: Effect, narrowed: Effect | None) -> Mended:
    if narrowed == effect:
        return Mended([effect])
    return Mended([] if narrowed is None else [narrowed], "it names streams that are not watched")
