"""Checkpoints and subscriptions as plain values: what one flush wrote beside its segments."""

from collections.abc import Iterator

import msgspec

from durable_sessions.bucket.checkpoint import decode_checkpoint
from durable_sessions.bucket.fetch import digest
from durable_sessions.tools.conflicts import Undecodable, decode_leniently
from durable_sessions.tools.dump.log import Plain, StreamPaths, plain_effect


def checkpoint_items(path: str, data: bytes) -> Iterator[Plain]:
    """Yield the size of a checkpoint, then its rows without the encoded state, removed streams included."""
    rows = decode_checkpoint(path, data)
    yield {"checkpoint": path, "bytes": len(data), "sha256": digest(data), "rows": len(rows)}
    for row in rows:
        fields = msgspec.structs.asdict(row)
        fields["state_bytes"] = len(fields.pop("state") or b"")
        yield {"stream": fields.pop("stream"), **fields}


def subscription_items(path: str, data: bytes) -> Iterator[Plain]:
    """Yield the size of an object of subscriptions, then its effects; one that is damaged is reported."""
    yield {"subscriptions": path, "bytes": len(data), "sha256": digest(data)}
    for at, effect in decode_leniently(data):
        if isinstance(effect, Undecodable):
            yield {"byte": at, "problem": effect.problem}
        else:
            yield {"byte": at, **plain_effect(effect, StreamPaths())}
