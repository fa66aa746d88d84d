"""What all adapters have in common: their clients, their namespace, and a check that all is well."""

import secrets
from collections.abc import Mapping
from typing import Any

from durable_sessions.adapters import _names as names
from durable_sessions.adapters import _requests as requests
from durable_sessions.adapters._clients import AdapterClients
from durable_sessions.adapters._plans import Plan
from durable_sessions.adapters._versions import described
from durable_sessions.client import AsyncClient, Client
from durable_sessions.client.encoding import encode
from durable_sessions.client.errors import ClientError
from durable_sessions.client.options import RETRIES, TIMEOUT_SECONDS

ATTEMPTS_MAX = 50
"""How often something is decided anew because somebody else has written meanwhile."""


class ConflictsPersistError(ClientError):
    """Others write to the session so often that no attempt of ours was the first."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"{session} was changed by others in {ATTEMPTS_MAX} attempts to write to it. Try again."
        )


class Adapter:
    """Stores the objects of one framework, in sessions whose ids begin with a namespace."""

    name: str
    package: str

    def __init__(
        self,
        client: Client | AsyncClient | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        namespace: str,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        if not namespace or names.escaped(namespace) != namespace:
            raise ValueError("namespace has only A-Z a-z 0-9 . _ and -, and at least one of them.")
        self._clients = AdapterClients(client, url=url, api_key=api_key, timeout=timeout, retries=retries)
        self._namespace = namespace

    def close(self) -> None:
        """Close the connections of sync calls, unless the client was given."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the connections that were made for the running loop, unless the client was given."""
        await self._clients.aclose()

    async def check(self) -> str:
        """Write and read back one event; return a sentence with the framework's version, or raise.

        A version that the adapter was not tested with is named as such: it may well work.
        """
        answered = await self._clients.arun(self._check())
        return f"{described(self.package)} is stored at {answered}."

    def _check(self) -> Plan[str]:
        session = names.session_id(self._namespace, f"check-{secrets.token_hex(8)}")
        yield from requests.append(
            session, [encode({"type": f"{self.name}.check", "slot": "check", "searchable": False})]
        )
        held = yield from requests.slots(session, ["check"])
        yield from requests.delete(session)
        if held.get("check") is None:
            raise RuntimeError("What was written was not there when it was read back. Is this one server?")
        return self._clients.url

    def _metadata(self, **parts: str) -> Mapping[str, Any]:
        """Return what a session is when an append creates it: the parts of its name, in clear."""
        return {"metadata": {"adapter": self.name, "namespace": self._namespace, **parts}}
