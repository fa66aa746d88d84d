"""The addresses of the web page."""

import re
from urllib.parse import urlsplit

_FIXED = frozenset(
    b"/ /sessions /search /compare /memory /approvals /login /admin/health /admin/keys /admin/audit".split()
)
_ROOTS = frozenset(b"v1 ui docs internal livez readyz metrics openapi.json".split()) | {
    path.split(b"/")[1] for path in _FIXED
}
_OF_SESSION = re.compile(rb"/sessions/[A-Za-z0-9_:@%-][A-Za-z0-9._:@%-]{0,599}(?:/(?:graph|usage|dossier))?")


def is_address(path: bytes) -> bool:
    """Say whether a path is one of the page."""
    return path in _FIXED or _OF_SESSION.fullmatch(path) is not None


def base_path(public_url: str) -> str:
    """Return the path below which a proxy serves everything, without a slash at its end; mostly empty."""
    return urlsplit(public_url).path.rstrip("/")


def kept_base(public_url: str) -> bytes:
    """Return the path that a proxy may leave in front of what it asks for; mostly empty.

    One that begins like our own paths is none, since what is below it could mean both.
    """
    base = base_path(public_url).encode()
    return b"" if base.split(b"/")[1:2] and base.split(b"/")[1] in _ROOTS else base
