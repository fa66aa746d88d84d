"""The cookie of a signed-in browser: which requests it counts for, and how it is set.

A cookie is sent by browsers on their own, so a request counts as signed in only if our own page has sent it.
"""

import ipaddress
from urllib.parse import urlsplit

from durable_sessions.errors import SignInRefusedError
from durable_sessions.http.carrier.message import Header, Request
from durable_sessions.http.openapi.answer_headers import SET_COOKIE

PAGE_HEADER = b"x-ds-page"
"""Only our page can send it: another origin would need a preflight, which never allows it."""
_NAMES = (b"__Host-ds", b"__Secure-ds", b"ds")
_READING = (b"GET", b"HEAD")
_COOKIE_BYTES_MAX = 8_192


def cookie_secret(request: Request) -> bytes:
    """Return the secret in the cookie of a request, empty if there is none or it does not count."""
    sent = request.headers.get(b"cookie")
    if sent is None or len(sent) > _COOKIE_BYTES_MAX or not _is_of_our_page(request):
        return b""
    found = dict(part.strip().partition(b"=")[::2] for part in sent.split(b";"))
    return next((found[name] for name in _NAMES if name in found), b"")


def _is_of_our_page(request: Request) -> bool:
    headers = request.headers
    if request.method not in _READING and headers.get(PAGE_HEADER) != b"1":
        return False
    site = headers.get(b"sec-fetch-site")
    if site == b"none":  # somebody has typed the address
        return request.method in _READING and headers.get(b"sec-fetch-mode") == b"navigate"
    if site is None:  # an old browser
        origin = headers.get(b"origin", b"").partition(b"://")[2]
        return bool(origin) and origin == headers.get(b"host", b"").lower()
    return site == b"same-origin"


class CookieWriter:
    """Sets the cookie and takes it back; its name says what a browser must check."""

    def __init__(self, public_url: str) -> None:
        parts = urlsplit(public_url)
        self._is_public_secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/") or "/"

    def set(self, request: Request, secret: str, seconds: int) -> Header:
        """Return the header that keeps a secret; over a connection that others can read it is refused."""
        return (
            SET_COOKIE,
            f"{self._name(request)}={secret}; {self._rules(request)}; Max-Age={seconds}".encode(),
        )

    def end(self, request: Request) -> Header:
        """Return the header that removes the secret."""
        return SET_COOKIE, f"{self._name(request)}=; {self._rules(request)}; Max-Age=0".encode()

    def require_private(self, request: Request) -> None:
        """Refuse a connection that others can read."""
        self._name(request)

    def _is_secure(self, request: Request) -> bool:
        headers = request.headers
        if self._is_public_secure or headers.get(b"x-forwarded-proto") == b"https":
            return True
        return headers.get(b"origin", b"").startswith(b"https://")

    def _name(self, request: Request) -> str:
        if self._is_secure(request):
            return "__Host-ds" if self._path == "/" else "__Secure-ds"
        if not _is_loopback(request.headers.get(b"host", b"")):
            raise SignInRefusedError
        return "ds"

    def _rules(self, request: Request) -> str:
        secure = "Secure; " if self._is_secure(request) else ""
        return f"HttpOnly; {secure}SameSite=Strict; Path={self._path}"


def _is_loopback(host: bytes) -> bool:
    name = urlsplit(f"//{host.decode('latin-1')}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
