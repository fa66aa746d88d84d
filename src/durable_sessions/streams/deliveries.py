"""Deciding webhook deliveries: what is sent when, and what follows from the outcome."""

from dataclasses import dataclass

from durable_sessions.limits import Limits
from durable_sessions.streams.effects import Delivered, DeliveryFailed, Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.subscriptions import Subscription, SubscriptionKey, Wake
from durable_sessions.streams.wakes import Now, end
from durable_sessions.streams.watched import StreamInfo, linked, stream_info

_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Delivery:
    """One webhook request: what it says and where it goes."""

    key: SubscriptionKey
    url: str
    base_url: str
    wake_id: str
    generation: int
    streams: list[StreamInfo]


def due(state: State, key: SubscriptionKey, now_ms: int) -> Delivery | None:
    """Return the webhook request that has to be sent now, if any."""
    subscription = state.subscriptions.get(key)
    if subscription is None or subscription.config.webhook_url is None:
        return None
    wake = subscription.wake
    if wake is None or wake.delivered:
        return None
    if wake.next_attempt_at_ms is not None and now_ms < wake.next_attempt_at_ms:
        return None
    return Delivery(
        key,
        subscription.config.webhook_url,
        subscription.base_url,
        wake.id,
        subscription.generation,
        _snapshot_infos(state, subscription, wake, now_ms),
    )


def accepted(state: State, key: SubscriptionKey, wake_id: str, now: Now, *, done: bool) -> list[Effect]:
    """Return the effects of a 2xx answer; ``done`` acknowledges the wake's snapshot and ends it."""
    found = _current(state, key, wake_id)
    if found is None:
        return []
    subscription, wake = found
    if done:
        return end(state, subscription, _snapshot_acks(state, subscription, wake, now.ms), now)[0]
    until = now.ms + subscription.config.lease_ttl_ms
    return [Delivered(*key, max(until, wake.lease_until_ms or 0))]


def failed(
    state: State, key: SubscriptionKey, wake_id: str, now_ms: int, fraction: float, limits: Limits
) -> list[Effect]:
    """Return the effects of any other outcome; ``fraction`` in [0, 1) spreads the next attempt."""
    found = _current(state, key, wake_id)
    if found is None:
        return []
    retries = found[1].retries + 1
    return [DeliveryFailed(*key, retries, now_ms + _pause_ms(retries, fraction, limits))]


def _pause_ms(retries: int, fraction: float, limits: Limits) -> int:
    longest_ms = int(limits.webhook_retry_seconds_max * 1000)
    doubled_ms = min(1000 * 2 ** min(retries - 1, 32), longest_ms)
    return min(int(doubled_ms * (1 - _JITTER + 2 * _JITTER * fraction)), longest_ms)


def _current(state: State, key: SubscriptionKey, wake_id: str) -> tuple[Subscription, Wake] | None:
    """Return the wake that an outcome belongs to, None if it has ended in the meantime."""
    subscription = state.subscriptions.get(key)
    if subscription is None or subscription.wake is None or subscription.wake.id != wake_id:
        return None
    return subscription, subscription.wake


def _snapshot_infos(state: State, subscription: Subscription, wake: Wake, now_ms: int) -> list[StreamInfo]:
    """Return the watched streams as of the wake: the tails told are exactly what "done" acknowledges."""
    infos = []
    for path, link in subscription.links.items():
        if link.stream is not None and linked(state, link, now_ms) is None:
            continue
        tail = max(wake.snapshot.get(path, 0), link.acked, 0)
        infos.append(stream_info(path, explicit=link.explicit, acked=link.acked, tail=tail))
    return infos


def _snapshot_acks(state: State, subscription: Subscription, wake: Wake, now_ms: int) -> dict[str, int]:
    acks = {}
    for path, tail in wake.snapshot.items():
        link = subscription.links.get(path)
        if link is not None and link.acked < tail and linked(state, link, now_ms) is not None:
            acks[path] = tail
    return acks
