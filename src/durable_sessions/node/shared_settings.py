"""Settings that must be the same on all nodes of a cluster: any of them may come to own any partition."""

import hmac
from collections.abc import Sequence

from durable_sessions.settings import Settings

SHARED = (
    "workspace",
    "api_key",
    "retention",
    "workspace_streams",
    "workspace_bytes",
    "artifact_bytes",
    "body_bytes",
    "event_bytes",
    "events_per_request",
    "otlp_unknown",
    "webhook_private_addresses",
)
_DIGITS = 4


def fingerprint(settings: Settings, secrets: Sequence[bytes]) -> str:
    """Return a few digits for each setting and secret; without a secret they tell nobody anything."""

    def digits(secret: bytes, name: str) -> str:
        value = f"{name} {getattr(settings, name)!r}".encode()
        return hmac.digest(secret, value, "sha256").hex()[:_DIGITS]

    return ".".join("".join(digits(secret, name) for name in SHARED) for secret in secrets)


def differing(own: str, other: str) -> list[str]:
    """Return which settings differ; none if the other node is of a version that tells something else."""
    compared = [
        [name for number, name in enumerate(SHARED) if _digits(mine, number) != _digits(theirs, number)]
        for mine in own.split(".")
        for theirs in other.split(".")
        if len(mine) == len(theirs)
    ]
    # Digits that are made with two secrets differ all. Those of one that both nodes have count.
    return min(compared, key=len, default=[])


def _digits(told: str, number: int) -> str:
    return told[number * _DIGITS :][:_DIGITS]
