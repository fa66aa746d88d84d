"""MCP over HTTP: who may knock, before anything of MCP is looked at."""

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.server.transport_security import TransportSecuritySettings

from durable_sessions.client.options import require_key
from durable_sessions.mcp.connections import bearer_key
from durable_sessions.mcp.server import PastServer

PATH = "/mcp"
BODY_BYTES_MAX = 1024 * 1024
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_PROBE_SECONDS = 10.0

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class Gate:
    """Refuses requests of foreign hosts and origins, and those without a key if the server wants one.

    Host and origin are checked also where a key is shown: a page that a name was rebound for could have one.
    """

    def __init__(
        self,
        application: Application,
        server_url: str,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
    ) -> None:
        self._application = application
        self._server_url = server_url
        self._hosts = frozenset(one.lower() for one in hosts)
        self._origins = frozenset(one.lower().rstrip("/") for one in origins)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            headers = _headers(scope)
            refusal = self._foreign(headers) or await self._keyless(headers)
            if refusal is not None:
                await _refuse(send, *refusal)
                return
        await self._application(scope, receive, send)

    def _foreign(self, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        hosts = headers.get("host", [])
        # A browser that was led here by a name that now means this machine still sends that name.
        if len(hosts) != 1 or not self._is_own_host(hosts[0].lower()):
            return 403, "This name of the server is not allowed; start ds mcp with --allowed-host NAME."
        for origin in headers.get("origin", []):
            if not self._is_own_origin(origin.lower()):
                return 403, "Pages of this origin are not allowed; start ds mcp with --allowed-origin ORIGIN."
        return None

    def _is_own_host(self, host: str) -> bool:
        return host in self._hosts or _name(f"//{host}") in LOOPBACK | self._hosts

    def _is_own_origin(self, origin: str) -> bool:
        return origin in self._origins or (origin.startswith("http") and _name(origin) in LOOPBACK)

    async def _keyless(self, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        shown = headers.get("authorization", [])
        # Of two keys the one that was checked need not be the one that is used.
        key = bearer_key(shown[0]) if len(shown) == 1 else None
        try:
            require_key(key or "")
        except ValueError as error:
            return 401, str(error)
        if key is None and await demands_key(self._server_url):
            return 401, "Send your key: Authorization: Bearer KEY."
        return None


async def demands_key(server_url: str) -> bool:
    """Say whether a server refuses requests without a key; one that does not answer is no reason to open."""
    try:
        async with httpx2.AsyncClient(verify=server_url.startswith("https://")) as http:
            answer = await http.get(f"{server_url}/v1/sessions?limit=1", timeout=_PROBE_SECONDS)
    except httpx2.HTTPError:
        return True
    return bool(answer.status_code != 200)


def application(
    server: PastServer, server_url: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()
) -> Gate:
    """Return the ASGI application: no state is kept from one request to the next, so it serves any key."""
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_BYTES_MAX,
        # The gate has checked host and origin already, with the names that the operator has allowed.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Gate(inner, server_url, hosts, origins)


def _headers(scope: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


async def _refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
