"""The settings of a client: address, API key, time-out and retries."""

import math
import os
from dataclasses import dataclass
from typing import TypedDict

import httpx2

DEFAULT_URL = "http://127.0.0.1:4437"
TIMEOUT_SECONDS = 30.0
RETRIES = 6
KEPT_CONNECTIONS_MAX = 32
PORT_MAX = 65_535


def require_address(url: str) -> None:
    """Raise ValueError if a URL cannot be that of a server."""
    try:
        parsed = httpx2.URL(url)
        whole = bool(parsed.host) and (parsed.port or 0) <= PORT_MAX
        whole = whole and not parsed.query and not parsed.fragment
    except httpx2.InvalidURL:
        whole = False
    if not whole or " " in url or not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not the address of a server; give one such as {DEFAULT_URL}.")


def require_key(key: str) -> None:
    """Raise ValueError if this cannot be an API key; the message does not contain the key."""
    if not all("!" <= character <= "~" for character in key):
        raise ValueError("The API key has a character that no key has, such as a space or a line end.")


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
    api_key: str | None
    timeout: float
    retries: int

    @classmethod
    def chosen(cls, url: str | None, api_key: str | None, timeout: float, retries: int) -> "Options":
        """Return the options for these arguments, completed from the environment."""
        url = url or os.environ.get("DURABLE_SESSIONS_URL") or DEFAULT_URL
        require_address(url)
        if retries < 0 or not 0 < timeout < math.inf:
            raise ValueError("retries is at least 0, timeout is more than 0 seconds and finite.")
        key = api_key or os.environ.get("DURABLE_SESSIONS_API_KEY") or None
        require_key(key or "")
        return cls(url.rstrip("/"), key, timeout, retries)

    def http(self) -> HttpOptions:
        """Return the arguments for the HTTP client."""
        headers = {"User-Agent": "durable-sessions-python"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": self.timeout,
            "verify": self.url.startswith(
                "https://"
            ),  # loading certificates is slow, and plain HTTP needs none
            "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS_MAX),
        }
