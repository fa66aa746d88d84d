"""Decides wakes: when one is issued, who holds it, what was acknowledged, when it ends.

Every decision that ends a wake also issues the next one if work is left, so that no append is left without a
wake.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import (
    AlreadyClaimedError,
    FencedError,
    InvalidAckError,
    InvalidOffsetError,
    InvalidRequestError,
    NoPendingWorkError,
    StreamClosedError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.limits import Limits
from durable_sessions.streams import append, lifetime, offsets
from durable_sessions.streams.effects import Acked, Effect, WakeClaimed, WakeEnded, Woken
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.streams.subscribe import changes_as_effects, find, relink
from durable_sessions.streams.subscriptions import Kind, Subscription, SubscriptionKey, Wake
from durable_sessions.streams.wake_intake import WakeEvent
from durable_sessions.streams.watched import StreamInfo, has_pending, linked, pending_tails, stream_infos


@dataclass(frozen=True, slots=True)
class Hold:
    """What a client shows to work on a wake; the token's generation was signed by us."""

    wake_id: str
    generation: int
    token_generation: int


@dataclass(frozen=True, slots=True)
class Now:
    """The time of a decision, and the id of the wake that it may have to issue."""

    ms: int
    wake_id: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim."""

    wake_id: str
    generation: int
    streams: list[StreamInfo]
    lease_ttl_ms: int


def advance(
    state: State, key: SubscriptionKey, paths: Iterable[str], now: Now
) -> tuple[list[Effect], list[str]]:
    """Do what time and appends require: renew links at ``paths``, end an overdue wake, issue a new one.

    Returns the effects, and the paths for which there is no room now.
    """
    subscription = state.subscriptions.get(key)
    if subscription is None:
        return [], []
    changes, left = relink(state, subscription, paths, now.ms, now.limits)
    effects = changes_as_effects(key, changes)
    wake = subscription.wake
    if wake is not None and not lease_over(subscription, wake, now.ms):
        # A wake that nobody holds yet ends early if its work is gone, for example because the streams were
        # deleted; one that is held ends only by its holder or its lease.
        somebody_has_it = wake.holder is not None or wake.lease_until_ms is not None
        if somebody_has_it or has_pending(state, subscription, now.ms, changes):
            return effects, left
    if wake is not None:
        effects.append(WakeEnded(*key))
    pending = pending_tails(state, subscription, now.ms, changes)
    return effects + _wake_for(state, subscription, pending, now), left


def claim(state: State, key: SubscriptionKey, worker: str, now: Now) -> tuple[list[Effect], Claim]:
    """Give the current wake, or a new one if work is pending, to a worker."""
    subscription = require_kind(find(state, key), "pull-wake")
    wake = subscription.wake
    effects: list[Effect] = []
    if wake is not None and lease_over(subscription, wake, now.ms):
        effects.append(WakeEnded(*key))
        wake = None
    if wake is not None and wake.holder is not None:
        raise AlreadyClaimedError(current_holder=wake.holder, generation=subscription.generation)
    pending = pending_tails(state, subscription, now.ms)
    if not pending:
        raise NoPendingWorkError
    generation = subscription.generation
    if wake is None:
        effects += _wake_for(state, subscription, pending, now)
        generation += 1
    lease_ttl_ms = subscription.config.lease_ttl_ms
    effects.append(WakeClaimed(*key, worker, now.ms + lease_ttl_ms))
    wake_id = now.wake_id if wake is None else wake.id
    streams = stream_infos(state, subscription, now.ms, listed_max=now.limits.wake_streams_listed_max)
    return effects, Claim(wake_id, generation, streams, lease_ttl_ms)


def acknowledge(
    state: State,
    key: SubscriptionKey,
    kind: Kind,
    hold: Hold,
    acks: Sequence[tuple[str, str]],
    now: Now,
    *,
    done: bool,
) -> tuple[list[Effect], bool]:
    """Record (path, offset) acks, all or none, and extend the lease or end the wake.

    Returns the effects and whether a next wake was issued.
    """
    subscription = require_kind(find(state, key), kind)
    _require_hold(subscription, hold, now.ms)
    positions = _positions(state, subscription, acks, now.ms)
    if done:
        return end(state, subscription, positions, now)
    return [Acked(*key, positions, now.ms + subscription.config.lease_ttl_ms)], False


def release(state: State, key: SubscriptionKey, hold: Hold, now: Now) -> list[Effect]:
    """Give up a claimed wake; what is still pending is in the next one."""
    subscription = require_kind(find(state, key), "pull-wake")
    _require_hold(subscription, hold, now.ms)
    return end(state, subscription, {}, now)[0]


def end(
    state: State, subscription: Subscription, positions: dict[str, int], now: Now
) -> tuple[list[Effect], bool]:
    """Return the effects of ending the current wake with these acks, and whether another follows."""
    effects: list[Effect] = [Acked(*subscription.key, positions, now.ms)] if positions else []
    effects.append(WakeEnded(*subscription.key))
    changes = {path: subscription.links[path]._replace(acked=acked) for path, acked in positions.items()}
    following = _wake_for(state, subscription, pending_tails(state, subscription, now.ms, changes), now)
    return effects + following, bool(following)


def lease_over(subscription: Subscription, wake: Wake, now_ms: int) -> bool:
    """Say whether a wake's lease has run out.

    A webhook's lease counts only once its receiver has accepted it: however long deliveries are
    retried, they are retries of the same wake.
    """
    if subscription.config.type == "webhook" and not wake.delivered:
        return False
    return wake.lease_until_ms is not None and now_ms >= wake.lease_until_ms


def due_ms(subscription: Subscription) -> int | None:
    """Return when something is due without any request, None if never."""
    wake = subscription.wake
    if wake is None:
        return None
    if subscription.config.type == "webhook" and not wake.delivered:
        return wake.next_attempt_at_ms
    return wake.lease_until_ms


def require_kind(subscription: Subscription, kind: Kind) -> Subscription:
    """Return the subscription, or refuse what its type does not have."""
    if subscription.config.type != kind:
        has = "claim, ack and release" if subscription.config.type == "pull-wake" else "callback"
        raise InvalidRequestError(
            problem=f"The subscription {subscription.key.id} has type {subscription.config.type}. Use {has}."
        )
    return subscription


def _wake_for(state: State, subscription: Subscription, pending: dict[str, int], now: Now) -> list[Effect]:
    if not pending:
        return []
    generation = subscription.generation + 1
    # A webhook keeps the tails of this moment, because its retries must say the same. A pull-wake worker gets
    # the current tails with its claim.
    is_webhook = subscription.config.type == "webhook"
    effects: list[Effect] = [Woken(*subscription.key, generation, now.wake_id, pending if is_webhook else {})]
    if not is_webhook:
        effects += _wake_event(state, subscription, generation, next(iter(pending)), now)
    return effects


def _wake_event(
    state: State, subscription: Subscription, generation: int, path: str, now: Now
) -> list[Effect]:
    """Return the append to the wake stream; none if it accepts none, since workers can claim anyway."""
    assert subscription.config.wake_stream is not None
    key = Key(subscription.key.workspace, subscription.config.wake_stream)
    event: dict[str, object] = {
        "type": "wake",
        "subscription_id": subscription.key.id,
        "stream": path,
        "generation": generation,
        "ts": now.ms,
    }
    try:
        stream = lifetime.find(state, key, now.ms)
        # Messages of a stream that is not JSON have no borders of their own.
        body = msgspec.json.encode(event) + (b"" if stream.is_json else b"\n")
        request = append.Append(body, stream.content_type)
        return append.decide(state, key, request, now.ms, now.limits)[0]
    except StreamNotFoundError:
        return _owed_event(state, subscription, generation, key, event, now) if state.has_neighbours else []
    except (StreamGoneError, StreamClosedError):
        return []


def _owed_event(
    state: State, subscription: Subscription, generation: int, key: Key, event: dict[str, object], now: Now
) -> list[Effect]:
    """Return the effect that owes a wake event to the wake stream, which may be in another partition."""
    encoded = msgspec.Raw(msgspec.json.encode(event))
    wake = WakeEvent(subscription.key.id, subscription.created_at_ms, generation, encoded)
    return [*state.outbox.owe([(key, msgspec.json.encode(wake))], now.limits.outbox_bytes_max)]


def _require_hold(subscription: Subscription, hold: Hold, now_ms: int) -> None:
    wake = subscription.wake
    # Each wake has a new generation: a client that shows an older one has lost its lease to the next holder.
    current = (
        wake is not None
        and wake.id == hold.wake_id
        and hold.generation == hold.token_generation == subscription.generation
        and (subscription.config.type == "webhook" or wake.holder is not None)
        and not lease_over(subscription, wake, now_ms)
    )
    if not current:
        raise FencedError(generation=subscription.generation)


def _positions(
    state: State, subscription: Subscription, acks: Sequence[tuple[str, str]], now_ms: int
) -> dict[str, int]:
    positions: dict[str, int] = {}
    for path, offset in acks:
        link = subscription.links.get(path)
        stream = None if link is None else linked(state, link, now_ms)
        if link is None or stream is None:
            raise InvalidAckError(stream=path, problem="the subscription watches no such stream")
        try:
            position = offsets.decode(offset)
        except InvalidOffsetError:
            raise InvalidAckError(
                stream=path, problem=f"{offset!r} is not an offset that this server gave"
            ) from None
        acked = positions.get(path, link.acked)  # a request may name a path twice, and must not go back
        if position < acked:
            raise InvalidAckError(stream=path, problem=f"{offsets.encode(acked)} is acknowledged already")
        if position > stream.tail:
            raise InvalidAckError(
                stream=path, problem=f"it lies beyond the stream's end, {offsets.encode(stream.tail)}"
            )
        positions[path] = position
    return positions
