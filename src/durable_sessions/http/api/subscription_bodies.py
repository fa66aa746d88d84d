"""Bodies of subscription requests, decoded and normalised."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api import json_body, webhook_urls
from durable_sessions.http.api.json_body import Expected
from durable_sessions.http.bodies.subscriptions import HoldBody, StreamsBody, SubscribeBody
from durable_sessions.http.paths import checked_path
from durable_sessions.limits import Limits
from durable_sessions.streams.subscribe import Subscribe
from durable_sessions.streams.subscriptions import Config

T = TypeVar("T")


def decode(body: bytes, shape: type[T], send: str, limits: Limits) -> T:
    """Return the decoded body, or refuse it and say what to send."""
    return json_body.decode(
        body, shape, Expected("A subscription", InvalidRequestError, f"Send {send}."), limits
    )


def subscribe_request(body: bytes, base_url: str, limits: Limits, reach: webhook_urls.Reach) -> Subscribe:
    """Return what a PUT asks for; equal requests give equal configurations."""
    asked = decode(
        body,
        SubscribeBody,
        'a JSON object with type "webhook" or "pull-wake", pattern or streams, and webhook or wake_stream',
        limits,
    )
    pattern = None if not asked.pattern else _pattern(asked.pattern, limits)
    streams = stream_paths(asked.streams or [], limits)
    if pattern is None and not streams:
        raise InvalidRequestError(problem="Send a pattern, or at least one path in streams, or both.")
    config = Config(
        asked.type,
        _lease_ttl_ms(asked.lease_ttl_ms, limits),
        pattern,
        hashlib.sha256("\n".join(streams).encode()).hexdigest() if streams else None,
        _webhook_url(asked, limits, reach),
        _wake_stream(asked),
        None if asked.description is None else text(asked.description, "description", limits, empty=True),
    )
    return Subscribe(config, streams, base_url)


def streams_request(body: bytes, limits: Limits) -> tuple[str, ...]:
    """Return the paths of the streams that a POST asks to watch."""
    asked = decode(body, StreamsBody, "a JSON object with streams, a list of stream paths", limits)
    return stream_paths(asked.streams, limits)


def stream_paths(paths: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """Return stream paths, each once and in order, or refuse one that no stream can have."""
    if len(paths) > limits.subscription_streams_max:
        raise InvalidRequestError(
            problem=f"streams holds {len(paths)} paths; send at most {limits.subscription_streams_max}."
        )
    return tuple(sorted({path_in_body(path) for path in paths}))


def path_in_body(path: str) -> str:
    """Return a stream path from a body: not percent-encoded, without slashes around it."""
    checked = checked_path(path.strip("/"))
    if checked.partition("/")[0] == "__ds":
        raise InvalidRequestError(problem=f"{checked} is reserved for the protocol; no stream can be there.")
    return checked


def acks_of(hold: HoldBody, limits: Limits) -> list[tuple[str, str]]:
    """Return the acks of a request as (path, offset)."""
    acks = hold.acks or []
    if len(acks) > limits.subscription_streams_max:
        raise InvalidRequestError(
            problem=f"acks holds {len(acks)} entries; send at most {limits.subscription_streams_max}."
        )
    found = []
    for ack in acks:
        path = ack.stream if ack.stream is not None else ack.path
        if path is None:
            raise InvalidRequestError(problem="An entry of acks names no stream. Send stream and offset.")
        found.append((path.strip("/"), ack.offset))
    return found


def text(value: str, name: str, limits: Limits, *, empty: bool = False) -> str:
    """Return a text of acceptable length."""
    least = 0 if empty else 1
    if not least <= len(value) <= limits.subscription_text_max:
        raise InvalidRequestError(
            problem=f"{name} has {len(value)} characters; send {least} to {limits.subscription_text_max}."
        )
    return value


def _pattern(pattern: str, limits: Limits) -> str:
    pattern = text(pattern.strip("/"), "pattern", limits)
    if "" in pattern.split("/"):
        raise InvalidRequestError(problem="pattern holds two slashes in a row, which no stream path does.")
    return pattern


def _lease_ttl_ms(asked: int | None, limits: Limits) -> int:
    if asked is None:
        return limits.lease_milliseconds_default
    if not limits.lease_milliseconds_min <= asked <= limits.lease_milliseconds_max:
        raise InvalidRequestError(
            problem=f"lease_ttl_ms is {asked}; send a whole number from {limits.lease_milliseconds_min} "
            f"to {limits.lease_milliseconds_max}."
        )
    return asked


def _webhook_url(asked: SubscribeBody, limits: Limits, reach: webhook_urls.Reach) -> str | None:
    if asked.type != "webhook":
        if asked.webhook is not None:
            raise InvalidRequestError(problem="A pull-wake subscription has no webhook. Leave it out.")
        return None
    if asked.webhook is None:
        raise InvalidRequestError(problem='A webhook subscription needs webhook: {"url": …}.')
    url = text(asked.webhook.url, "webhook.url", limits)
    webhook_urls.parse(url, reach)
    return url


def _wake_stream(asked: SubscribeBody) -> str | None:
    if asked.type != "pull-wake":
        if asked.wake_stream is not None:
            raise InvalidRequestError(problem="A webhook subscription has no wake_stream. Leave it out.")
        return None
    if not asked.wake_stream:
        raise InvalidRequestError(problem="A pull-wake subscription needs wake_stream, the path of a stream.")
    return path_in_body(asked.wake_stream)
