"""One key: what is kept of it, which is everything but the secret."""

import hashlib

import msgspec

from durable_sessions.access.caller import ROLES, Caller
from durable_sessions.access.rate import TokenBucket

SECRET_PREFIX = "dsk_"  # noqa: S105  # how every secret begins, so that scanners find one that leaked


class KeyDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key as it is kept in the log: an attribute of a stream of its own.

    ``digest`` is the SHA-256 of the secret in hexadecimal. The secret has 256 random bits, so nobody can
    try them all, however fast the hash is; a slow one would only slow every request.

    A key with a ``parent`` is a browser's sign-in: its secret is in a cookie, and it is valid only as long as
    the key that the parent is.
    """

    id: str
    workspace: str
    principal: str
    role: str
    digest: str
    created_at_ms: int
    created_by: str
    requests_per_second: float | None = None
    revoked_at_ms: int | None = None
    revoked_by: str | None = None
    expires_at_ms: int | None = None
    parent: str | None = None

    def is_over(self, now_ms: int) -> bool:
        """Say whether the key is no longer valid: it was revoked, or has expired."""
        return self.revoked_at_ms is not None or (
            self.expires_at_ms is not None and now_ms >= self.expires_at_ms
        )


class LiveKey:
    """A key as it is used: who it stands for, its rate, and when it was last seen by this process."""

    __slots__ = ("caller", "digest", "document", "last_used_ms", "rate")

    def __init__(self, document: KeyDocument, now_ms: int, workers: int = 1) -> None:
        self.document = document
        self.digest = bytes.fromhex(document.digest)
        self.caller = Caller(document.workspace, document.principal, ROLES[document.role], document.id)
        self.last_used_ms: int | None = None
        per_second = document.requests_per_second
        self.rate = None if per_second is None else TokenBucket(per_second, max(per_second, 1.0), now_ms)
        if workers > 1:
            self.divide_rate(workers)

    def divide_rate(self, workers: int) -> None:
        """Admit only a part of its requests: the others reach as many processes besides this one."""
        per_second = self.document.requests_per_second
        if self.rate is not None and per_second is not None:
            self.rate.change(per_second / workers, max(per_second / workers, 1.0))


def digest(secret: bytes) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret).digest()
