"""Admission of requests by Host, proxy headers, Origin and Sec-Fetch-Site.

A server without keys trusts everyone who can reach it, and so can every web page in a browser on the same
machine. Only these rules keep such pages out. Programs other than browsers do not send these headers.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from durable_sessions.errors import HostNotAllowedError, KeysRequiredError, OriginNotAllowedError
from durable_sessions.http.api import cors
from durable_sessions.http.api.auth import secret_of
from durable_sessions.http.carrier.message import OWN, PAGE, SHARED, Request, Response
from durable_sessions.http.paths import API_ROOT, STREAM_ROOT

_HOST = re.compile(r"(\[[0-9a-f]*:[0-9a-f:.]*\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_LOOPBACK = frozenset({ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")})
_OURS = (None, b"same-origin", b"none")
_ALIVE = b"/livez"  # reveals nothing, and process monitors need it before there are keys
_SHOWN_CHARACTERS = 100
_HOSTS_KEPT_MAX = 64


class OriginRules:
    """Admits a request or refuses it, and sets the audience of its answer.

    ``is_page`` recognises our own pages, to which other sites may link. ``is_proven`` recognises a request
    that may create the first key, which must be possible before requests through a proxy are admitted.
    """

    def __init__(
        self,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        public_url: str = "",
        is_page: Callable[[bytes], bool],
        is_proven: Callable[[Request], bool],
    ) -> None:
        self._hosts = frozenset(name.lower() for name in hosts if name)
        self._origins = frozenset(origin.encode() for origin in origins)
        self._has_proxy = bool(public_url)
        self._public_origin = origin_of(public_url).encode()
        self._is_page = is_page
        self._is_proven = is_proven
        self._hosts_kept: set[bytes] = (
            set()
        )  # accepted values as sent, so that most requests cost one look-up

    def admit(self, request: Request, *, keyed: bool) -> Response | None:
        """Refuse a request, or set the audience of its answer; return that answer if it is a preflight."""
        headers = request.headers
        if not keyed:
            if headers.get(b"host") not in self._hosts_kept:
                self._require_host(headers.get(b"host"))
            self._require_no_proxy(request)
        if b"origin" in headers or headers.get(b"sec-fetch-site") not in _OURS:
            return self._admit_browser(request, keyed=keyed)
        # Most paths are of the API, and nothing there is a page.
        is_page = not request.path.startswith(API_ROOT) and self._is_page(request.path)
        request.audience = PAGE if is_page else OWN
        return None

    def _admit_browser(self, request: Request, *, keyed: bool) -> Response | None:
        headers, path = request.headers, request.path
        origin = headers.get(b"origin")
        shared = cors.is_shared(path)
        allowed = origin in self._origins
        if origin is not None and cors.is_preflight(request):
            # A preflight has no key. Where keys are required, the request that follows must have one.
            if shared and (keyed or allowed or self._is_ours(origin, headers, keyed=keyed)):
                request.audience = SHARED
            elif not path.startswith(STREAM_ROOT):
                raise _refused(origin, keyed=keyed)
            # On streams the protocol requires an answer; without Allow-Origin, browsers take it as a refusal.
            return cors.preflight()
        foreign = origin is not None and not self._is_ours(origin, headers, keyed=keyed)
        if not foreign and headers.get(b"sec-fetch-site") not in _OURS:
            foreign = not (self._serves_page(path) and _is_navigation(request))
        if foreign and not allowed and not (keyed and secret_of(headers)):
            raise _refused(origin, keyed=keyed)
        if self._serves_page(path):
            request.audience = PAGE
        elif shared and origin is not None:
            request.audience = SHARED
        return None

    def _is_ours(self, origin: bytes, headers: dict[bytes, bytes], *, keyed: bool) -> bool:
        """Say whether an origin is the one that the request was sent to."""
        if origin and origin == self._public_origin:
            return True
        scheme, _, host = origin.partition(b"://")
        # TLS ends at the proxy, and only a server with keys may be behind one.
        known = scheme == b"http" or (keyed and scheme == b"https")
        return known and host == headers.get(b"host", b"").lower()

    def _serves_page(self, path: bytes) -> bool:
        return not path.startswith(API_ROOT) and self._is_page(path)

    def _require_host(self, host: bytes | None) -> None:
        """Refuse a foreign host name (DNS rebinding); no browser leaves the header out."""
        if host is None:
            return
        if not self._is_local(host.decode("latin-1").lower()):
            raise HostNotAllowedError(host=_shown(host))
        if len(self._hosts_kept) < _HOSTS_KEPT_MAX:
            self._hosts_kept.add(host)

    def _is_local(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1]
        if name == "localhost" or name in self._hosts or name.strip("[]") in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name.strip("[]")) in _LOOPBACK
        except ValueError:
            return False

    def _require_no_proxy(self, request: Request) -> None:
        """Refuse requests through a proxy: their clients need not be on this machine."""
        headers = request.headers
        # Nearly all requests are decided by one search in the joined names; only a hit is examined further.
        forwarded = b"forwarded" in b"\n".join(headers) and (
            b"forwarded" in headers or any(name.startswith(b"x-forwarded-") for name in headers)
        )
        if (forwarded or self._has_proxy) and request.path != _ALIVE and not self._is_proven(request):
            raise KeysRequiredError


def origin_of(url: str) -> str:
    """Return the origin of a URL as browsers write it, empty if there is none."""
    parts = urlsplit(url.lower())
    if not parts.netloc:
        return ""
    standard = {"http": ":80", "https": ":443"}.get(parts.scheme)
    host = parts.netloc.removesuffix(standard) if standard else parts.netloc
    return f"{parts.scheme}://{host}"


def _is_navigation(request: Request) -> bool:
    """Say whether this is a top-level navigation: a person follows a link; frames do not count."""
    headers = request.headers
    return (
        request.method in (b"GET", b"HEAD")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest", b"document") == b"document"
    )


def _refused(origin: bytes | None, *, keyed: bool) -> OriginNotAllowedError:
    return OriginNotAllowedError(
        origin="another origin" if origin is None else _shown(origin),
        remedy="send a key in a header, or " if keyed else "",
    )


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN_CHARACTERS].decode("latin-1"))
