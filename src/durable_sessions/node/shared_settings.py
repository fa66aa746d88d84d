"""Settings that must be the same on all nodes of a cluster: any of them may come to own any partition."""

import hmac

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


def fingerprint(settings: Settings, secret: bytes) -> str:
    """Return a few digits for each of these settings; without ``secret`` they tell nobody anything."""
    found = []
    for name in SHARED:
        value = f"{name} {getattr(settings, name)!r}".encode()
        found.append(hmac.digest(secret, value, "sha256").hex()[:_DIGITS])
    return "".join(found)


def differing(own: str, other: str) -> list[str]:
    """Return which settings differ; none if the other node is of a version that tells something else."""
    if len(own) != len(other):
        return []
    return [
        name
        for number, name in enumerate(SHARED)
        if own[number * _DIGITS :][:_DIGITS] != other[number * _DIGITS :][:_DIGITS]
    ]
