"""The Python client: ``Client`` and ``AsyncClient``."""

from durable_sessions.client.artifact import Artifact
from durable_sessions.client.async_client import AsyncClient
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_writer import AsyncPending, AsyncWriter
from durable_sessions.client.calls import Appended
from durable_sessions.client.client import Client
from durable_sessions.client.event import Event
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.search import Hit, SearchGroup, SearchPage, SearchResults
from durable_sessions.client.session import Session
from durable_sessions.client.writer import Pending, Writer

__all__ = [
    "Appended",
    "Artifact",
    "AsyncClient",
    "AsyncPending",
    "AsyncSession",
    "AsyncWriter",
    "Client",
    "Event",
    "Hit",
    "Pending",
    "SearchGroup",
    "SearchPage",
    "SearchResults",
    "Session",
    "SessionInfo",
    "Writer",
]
