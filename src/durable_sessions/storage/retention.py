"""Retention: which policy applies to a stream, and its effect."""

from collections.abc import Sequence

import msgspec

from durable_sessions.retention_policy import RetentionPolicy
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Stream

DAY_MS = 24 * 3600 * 1000


class Retention:
    """The server's policies; the one with the longest matching prefix applies to a path."""

    def __init__(self, policies: Sequence[RetentionPolicy] = ()) -> None:
        self._policies = sorted(policies, key=lambda policy: len(policy.prefix), reverse=True)

    @property
    def fingerprint(self) -> str:
        """A value that changes whenever a policy does."""
        return msgspec.json.encode(sorted(self._policies, key=lambda policy: policy.prefix)).decode()

    def holds_all(self, prefix: str) -> bool:
        """Say whether everything below a prefix is under a legal hold."""
        below = [policy for policy in self._policies if policy.prefix.startswith(prefix)]
        above = self.policy(prefix)
        return above is not None and above.hold and all(policy.hold for policy in below)

    def policy(self, path: str) -> RetentionPolicy | None:
        """Return the policy that applies to a path; None if none does."""
        return next((policy for policy in self._policies if path.startswith(policy.prefix)), None)

    def govern(self, stream: Stream) -> None:
        """Set whether a stream is held, and how long it may be idle or stay when it is closed.

        The server's own streams have no policy.
        """
        if not self._policies:
            return
        policy = None if stream.key.workspace == SYSTEM_WORKSPACE else self.policy(stream.key.path)
        stream.held = policy is not None and policy.hold
        stream.idle_ms = None if policy is None else _ms(policy.idle_days)
        stream.closed_ms = None if policy is None else _ms(policy.closed_days)


def _ms(days: float | None) -> int | None:
    return None if days is None else int(days * DAY_MS)


NO_RETENTION = Retention()
