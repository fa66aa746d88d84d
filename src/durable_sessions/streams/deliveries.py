"""Decides webhook deliveries: what is sent when, and what follows from the outcome."""

from dataclasses import dataclass

from durable_sessions.limits import Limits
from durable_sessions.streams.effects import Delivered, DeliveryFailed, Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.subscriptions import Subscription, SubscriptionKey, Wake
from durable_sessions.streams.wakes import Now, end
from durable_sessions.streams.watched import StreamInfo, stream_infos

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


def due(state: State, key: SubscriptionKey, now_ms: int, limits: Limits) -> Delivery | None:
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
        # The tails are those at the time of the wake: they are exactly what "done" acknowledges.
        stream_infos(
            state, subscription, now_ms, tails=wake.snapshot, listed_max=limits.wake_streams_listed_max
        ),
    )


def accepted(state: State, key: SubscriptionKey, wake_id: str, now: Now, *, done: bool) -> list[Effect]:
    """Return the effects of a 2xx answer; ``done`` acknowledges the wake's snapshot and ends it."""
    found = _current(state, key, wake_id)
    if found is None:
        return []
    subscription, wake = found
    if done:
        # An ack by callback may have gone beyond the snapshot already.
        links = subscription.links
        acks = {path: tail for path, tail in wake.snapshot.items() if tail > links[path].acked}
        return end(state, subscription, acks, now)[0]
    return [Delivered(*key, now.ms + subscription.config.lease_ttl_ms)]


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
