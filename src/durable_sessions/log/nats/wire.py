"""A connection to NATS: requests and their answers, each within a time, and nothing that is sent twice.

This is the only module that knows the client library. A request without an answer raises TimeoutError,
whatever the reason: it may have arrived.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import structlog

from durable_sessions.errors import LogError, SettingsError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

logger = structlog.get_logger(__name__)

CONNECT_SECONDS_MAX = 5.0
RECONNECT_SECONDS = 0.25
PING_SECONDS = 5
_END = "204"


@dataclass(frozen=True, slots=True)
class NatsServers:
    """Where NATS is, and how a process proves who it is; ``urls`` are some of the servers."""

    urls: tuple[str, ...]
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    credentials: Path | None = None
    nkey: Path | None = None

    def tls(self) -> ssl.SSLContext | None:
        """Return how connections are encrypted, None if they are not."""
        if self.ca is None and self.certificate is None:
            return None
        context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        if self.certificate is not None:
            context.load_cert_chain(str(self.certificate), None if self.key is None else str(self.key))
        return context


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def _library() -> ModuleType:
    try:
        import nats  # only a cluster on NATS needs it
    except ImportError as error:
        problem = "A log in NATS needs the package nats-py: pip install 'durable-sessions[cluster]'."
        raise SettingsError(problem=problem) from error
    return nats


class NatsWire:
    """One connection, which finds its way to another server when it is lost."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    @classmethod
    async def connect(cls, servers: NatsServers, name: str = "durable-sessions") -> "NatsWire":
        """Connect to one of the servers, or raise LogError."""
        library = _library()
        options: dict[str, Any] = {}
        if servers.credentials is not None:
            options["user_credentials"] = str(servers.credentials)
        if servers.nkey is not None:
            options["nkeys_seed"] = str(servers.nkey)
        context = servers.tls()
        if context is not None:
            options["tls"] = context
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                client = await library.connect(
                    servers=list(servers.urls),
                    name=name,
                    connect_timeout=2,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,
                    ping_interval=PING_SECONDS,
                    error_cb=_noted,
                    **options,
                )
        except (OSError, TimeoutError, library.errors.Error) as error:
            reason = f"NATS at {', '.join(servers.urls)} cannot be reached: {error or 'no answer'}"
            raise LogError(reason=reason) from error
        return cls(client)

    @property
    def payload_bytes_max(self) -> int:
        """The largest message that the server takes: beyond it, it cuts the connection."""
        return int(self._client.max_payload)

    @property
    def is_connected(self) -> bool:
        """Whether a request would be sent at once."""
        return bool(self._client.is_connected)

    async def request(
        self, subject: str, data: bytes, seconds: float, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request and return its answer; TimeoutError if there was none, which says nothing."""
        try:
            answer = await self._client.request(
                subject, data, timeout=seconds, headers=None if headers is None else dict(headers)
            )
        except _library().errors.Error as error:
            raise TimeoutError(str(error)) from error
        except OSError as error:
            raise TimeoutError(str(error)) from error
        return Reply(answer.data, answer.headers or {})

    async def request_many(self, subject: str, data: bytes, seconds: float) -> list[Reply]:
        """Send a request that is answered by several messages, and return those before the one that ends it.

        ``seconds`` is how long each message may take.
        """
        client, replies = self._client, list[Reply]()
        inbox = client.new_inbox()
        try:
            subscription = await client.subscribe(inbox)
            try:
                await client.publish(subject, data, reply=inbox)
                while True:
                    message = await subscription.next_msg(timeout=seconds)
                    headers = message.headers or {}
                    if "Status" in headers or headers.get("Nats-Pending-Messages") == _END:
                        return replies
                    replies.append(Reply(message.data, headers))
            finally:
                await subscription.unsubscribe()
        except _library().errors.Error as error:
            raise TimeoutError(str(error)) from error
        except OSError as error:
            raise TimeoutError(str(error)) from error

    async def publish(self, subject: str, data: bytes) -> None:
        """Send a message that nobody answers; one that is lost is lost."""
        if self.is_connected:
            try:
                await self._client.publish(subject, data)
            except (OSError, _library().errors.Error):
                pass

    async def subscribe(self, subject: str, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Call ``take`` with every message on a subject from now on."""

        async def taken(message: "Msg") -> None:
            await take(message.data)

        await self._client.subscribe(subject, cb=taken)
        await self._client.flush()

    async def close(self) -> None:
        """Close the connection; requests under way get no answer."""
        try:
            await self._client.close()
        except (OSError, _library().errors.Error):
            pass


async def _noted(error: Exception) -> None:
    logger.info("nats_connection", reason=str(error) or repr(error))
