"""The Python client: ``Client`` and ``AsyncClient``."""

from durable_sessions.client.artifact import Artifact
from durable_sessions.client.async_client import AsyncClient
from durable_sessions.client.async_dossier import AsyncDossier
from durable_sessions.client.async_forward import AsyncBranch, AsyncSelect, AsyncSequential, AsyncWorkflow
from durable_sessions.client.async_replay import AsyncReplay
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_tool import AsyncWorkCall
from durable_sessions.client.async_work import AsyncWork
from durable_sessions.client.async_writer import AsyncPending, AsyncWriter
from durable_sessions.client.calls import Appended
from durable_sessions.client.client import Client
from durable_sessions.client.context import Context
from durable_sessions.client.dossier import Dossier
from durable_sessions.client.event import Event
from durable_sessions.client.forward import Branch, Select, Sequential, Workflow
from durable_sessions.client.handoff import Handoff
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.memory_backend import AsyncMemoryBackend, MemoryBackend
from durable_sessions.client.memory_calls import RecalledMemory
from durable_sessions.client.outline import Outline, OutlinedEvents
from durable_sessions.client.placement_record import CommandRun
from durable_sessions.client.replay import Replay
from durable_sessions.client.search import Hit, SearchGroup, SearchPage, SearchPositions, SearchResults
from durable_sessions.client.session import Session
from durable_sessions.client.session_changes import SessionChanges
from durable_sessions.client.slots import HeldSlot
from durable_sessions.client.tool import WorkCall
from durable_sessions.client.validation import Validation
from durable_sessions.client.work import Work
from durable_sessions.client.work_calls import AskedQuestion, SessionLease
from durable_sessions.client.writer import Pending, Writer

__all__ = [
    "Appended",
    "Artifact",
    "AskedQuestion",
    "AsyncBranch",
    "AsyncClient",
    "AsyncDossier",
    "AsyncMemoryBackend",
    "AsyncPending",
    "AsyncReplay",
    "AsyncSelect",
    "AsyncSequential",
    "AsyncSession",
    "AsyncWork",
    "AsyncWorkCall",
    "AsyncWorkflow",
    "AsyncWriter",
    "Branch",
    "Client",
    "CommandRun",
    "Context",
    "Dossier",
    "Event",
    "Handoff",
    "HeldSlot",
    "Hit",
    "MemoryBackend",
    "Outline",
    "OutlinedEvents",
    "Pending",
    "RecalledMemory",
    "Replay",
    "SearchGroup",
    "SearchPage",
    "SearchPositions",
    "SearchResults",
    "Select",
    "Sequential",
    "Session",
    "SessionChanges",
    "SessionInfo",
    "SessionLease",
    "Validation",
    "Work",
    "WorkCall",
    "Workflow",
    "Writer",
]
