"""Keys for tests: what is kept of one whose secret is its id."""

from durable_sessions.access.key import KeyDocument, digest


def document(
    key_id: str,
    *,
    workspace: str = "default",
    role: str = "writer",
    rate: float | None = None,
    revoked_at_ms: int | None = None,
    expires_at_ms: int | None = None,
) -> KeyDocument:
    """Return a key whose secret is its id."""
    return KeyDocument(
        id=key_id,
        workspace=workspace,
        principal=f"holder of {key_id}",
        role=role,
        digest=digest(key_id.encode()).hex(),
        created_at_ms=1,
        created_by="test",
        requests_per_second=rate,
        revoked_at_ms=revoked_at_ms,
        revoked_by=None if revoked_at_ms is None else "test",
        expires_at_ms=expires_at_ms,
    )
