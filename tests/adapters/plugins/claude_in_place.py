"""For the tests of the Claude Agent SDK: our store in the place of its ``InMemorySessionStore``."""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import claude_agent_sdk
from claude_agent_sdk._internal import session_store

from durable_sessions.adapters.claude import DurableSessionStore

_NUMBERS = itertools.count()


class Store(DurableSessionStore):
    """A fresh store, with what the tests look into."""

    def __init__(self) -> None:
        super().__init__(
            url=os.environ["ADAPTER_SERVER"], namespace=f"upstream-{os.getpid()}-{next(_NUMBERS)}"
        )

    def get_entries(self, key: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the entries of a key."""
        return self._clients.run(self._load(key)) or []

    @property
    def size(self) -> int:
        """Return how many transcripts there are."""
        from durable_sessions.adapters._requests import sessions

        wanted = {"adapter": self.name, "namespace": self._namespace}
        found = self._clients.run(sessions(metadata=wanted, holding="claude.summary"))
        return len(found)


claude_agent_sdk.InMemorySessionStore = session_store.InMemorySessionStore = Store
