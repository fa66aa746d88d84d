"""The settings of a client: address, API key, time-out and retries."""

import math
import os
import re
from dataclasses import dataclass, field
from typing import TypedDict

import httpx2

DEFAULT_URL = "http://127.0.0.1:4437"
TIMEOUT_SECONDS = 30.0
RETRIES = 6
"""With the pauses of ``retry.py`` 8 to 16 seconds in all: a server can be started again in that time."""
KEPT_CONNECTIONS_MAX = 32
PORT_MAX = 65_535
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}/?", re.ASCII)
_PRINCIPAL = re.compile(r"[A-Za-z0-9._:@-]{1,128}", re.ASCII)


def require_address(url: str) -> None:
    """Raise ValueError if a URL cannot be that of a server."""
    try:
        parsed = httpx2.URL(url)
        whole = bool(parsed.host) and (parsed.port or 0) <= PORT_MAX
        whole = whole and not parsed.query and not parsed.fragment
    except httpx2.InvalidURL:
        whole = False
    if not whole or " " in url or not url.startswith(("http://", "https://")):
        # The most common mistake is an address without http://.
        such = f"http://{url}" if _HOST_AND_PORT.fullmatch(url) else DEFAULT_URL
        raise ValueError(f"{url!r} is not the address of a server; give one such as {such}.")


def require_key(key: str) -> None:
    """Raise ValueError if this cannot be an API key; the message does not contain the key."""
    if not all("!" <= character <= "~" for character in key):
        raise ValueError("The API key has a character that no key has, such as a space or a line end.")


def require_principal(principal: str) -> None:
    """Raise ValueError if this cannot be the name of a principal."""
    if not _PRINCIPAL.fullmatch(principal):
        raise ValueError(f"{principal!r} is no principal: that has 1 to 128 of A-Z a-z 0-9 . _ : @ and -.")


class HttpOptions(TypedDict):
    """The arguments that the sync and the async HTTP client share."""

    base_url: str
    headers: dict[str, str]
    timeout: float
    verify: bool
    limits: httpx2.Limits


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a client; those not given come from the environment."""

    url: str
    api_key: str | None = field(repr=False)
    timeout: float
    retries: int
    principal: str | None = None

    @classmethod
    def chosen(
        cls,
        url: str | None,
        api_key: str | None,
        timeout: float,
        retries: int,
        principal: str | None = None,
    ) -> "Options":
        """Return the options for these arguments, completed from the environment."""
        url = url or os.environ.get("DURABLE_SESSIONS_URL") or DEFAULT_URL
        require_address(url)
        if retries < 0 or not 0 < timeout < math.inf:
            raise ValueError("retries is at least 0, timeout is more than 0 seconds and finite.")
        key = api_key or os.environ.get("DURABLE_SESSIONS_API_KEY") or None
        require_key(key or "")
        principal = principal or os.environ.get("DURABLE_SESSIONS_PRINCIPAL") or None
        require_principal(principal or "local")
        return cls(url.rstrip("/"), key, timeout, retries, principal)

    def http(self) -> HttpOptions:
        """Return the arguments for the HTTP client."""
        headers = {"User-Agent": "durable-sessions-python"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if self.principal is not None:
            headers["Session-Principal"] = self.principal
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": self.timeout,
            "verify": self.url.startswith(
                "https://"
            ),  # loading certificates is slow, and plain HTTP needs none
            "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS_MAX),
        }
