"""Clients for the callers of one process: each request has the key of its own caller, and nothing is kept."""

from contextvars import ContextVar
from typing import Any

import httpx2
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from durable_sessions.client import AsyncClient

TIMEOUT_SECONDS = 30.0
RETRIES = 2
_CONNECTIONS_MAX = 64
_BEARER = "bearer "
_caller_key: ContextVar[str | None] = ContextVar("caller_key", default=None)


def bearer_key(authorization: str | None) -> str | None:
    """Return the key in an ``Authorization`` header, None if there is none."""
    if authorization is None or not authorization.lower().startswith(_BEARER):
        return None
    return authorization[len(_BEARER) :].strip() or None


async def as_caller(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Handle a message of MCP with the key of the HTTP request that brought it."""
    key = None if ctx.request is None else bearer_key(ctx.request.headers.get("authorization"))
    token = _caller_key.set(key)
    try:
        return await call_next(ctx)
    finally:
        _caller_key.reset(token)


class Connections:
    """The connections to one server, shared by all callers; only the key differs from request to request."""

    def __init__(self, url: str, api_key: str | None = None, principal: str | None = None) -> None:
        self._url = url
        self._api_key = api_key
        self._principal = principal
        self._transport = httpx2.AsyncHTTPTransport(
            verify=url.startswith("https://"), limits=httpx2.Limits(max_connections=_CONNECTIONS_MAX)
        )

    def client(self) -> AsyncClient:
        """Return a client with the caller's key, or with that of this process where there are no callers."""
        return AsyncClient(
            self._url,
            _caller_key.get() or self._api_key,
            timeout=TIMEOUT_SECONDS,
            retries=RETRIES,
            principal=self._principal,
            transport=self._transport,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()
