"""For the tests of the OpenAI Agents SDK: our session in the place of its ``SQLiteSession``."""

import os
import uuid
from typing import Any

from agents.memory import sqlite_session

import agents
from agents import memory
from durable_sessions.adapters import openai_agents

_PROCESS = uuid.uuid4().hex


class Session(openai_agents.DurableSession):
    """A session as the tests make those of SQLite: sessions of one database file see each other."""

    def __init__(
        self, session_id: str, db_path: Any = ":memory:", *_: Any, session_settings: Any = None, **__: Any
    ) -> None:
        where = (
            uuid.uuid4().hex
            if str(db_path) == ":memory:"
            else uuid.uuid5(uuid.NAMESPACE_URL, _PROCESS + str(db_path)).hex
        )
        super().__init__(
            session_id,
            url=os.environ["ADAPTER_SERVER"],
            namespace=f"o{where}",
            session_settings=session_settings,
        )

    def close(self) -> None:
        """Leave the connections to the end of the process: tests go on after this."""


for module in (agents, memory, sqlite_session):
    module.SQLiteSession = Session  # type: ignore[attr-defined]
