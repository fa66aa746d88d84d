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
_INSTALL = "pip install 'durable-sessions[cluster]'"


@dataclass(frozen=True, slots=True)
class NatsServers:
    """Where NATS is, and how a process proves who it is; ``urls`` are some of the servers."""

    urls: tuple[str, ...]
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    credentials: Path | None = None
    nkey: Path | None = None

    def options(self) -> dict[str, Any]:
        """Return what the client library is told of them; SettingsError if a file is of no use."""
        if self.credentials is not None and self.nkey is not None:
            raise SettingsError(problem="nats_credentials and nats_nkey are both given: keep one of them.")
        if self.key is not None and self.certificate is None:
            raise SettingsError(problem="nats_key is given without nats_certificate: give both.")
        options: dict[str, Any] = {"servers": list(self.urls)}
        for name, file, option in (
            ("nats_credentials", self.credentials, "user_credentials"),
            ("nats_nkey", self.nkey, "nkeys_seed"),
        ):
            if file is not None:
                _require_seed(name, file)
                options[option] = str(file)
        context = self._tls()
        return options if context is None else {**options, "tls": context}

    def _tls(self) -> ssl.SSLContext | None:
        """Return how connections are encrypted, None if they are not."""
        encrypted = any(url.startswith("tls://") for url in self.urls)
        if self.ca is None and self.certificate is None and not encrypted:
            return None
        files = (("nats_ca", self.ca), ("nats_certificate", self.certificate), ("nats_key", self.key))
        for name, file in files:
            if file is not None:
                _require_readable(name, file)
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(str(self.certificate), None if self.key is None else str(self.key))
        except ssl.SSLError as error:
            problem = f"nats_ca, nats_certificate or nats_key has no certificate or key in it: {error}."
            raise SettingsError(problem=problem) from error
        return context


def _require_seed(name: str, file: Path) -> None:
    """Refuse a file without the secret seed that a node signs in with."""
    _require_readable(name, file)
    try:
        import nkeys  # the client library needs it for such files only
    except ImportError as error:
        problem = f"nats_credentials and nats_nkey need the package nkeys: {_INSTALL}."
        raise SettingsError(problem=problem) from error
    for line in file.read_bytes().split():
        try:
            nkeys.from_seed(bytearray(line))
            return
        except (nkeys.NkeysError, ValueError):
            continue
    raise SettingsError(problem=f"{name} is {file}, in which there is no seed of an nkey (SU…).")


def _require_readable(name: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise SettingsError(problem=f"{name} is {file}, which cannot be read: {error.strerror}.") from error


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def _library() -> ModuleType:
    try:
        import nats  # only a cluster on NATS needs it
    except ImportError as error:
        problem = f"A log in NATS needs the package nats-py: {_INSTALL}."
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
        options = await asyncio.to_thread(servers.options)
        seen: list[str] = []  # the client tries again and again, so that only the time ends it

        async def noted(error: Exception) -> None:
            seen[:] = [str(error) or repr(error)]
            logger.info("nats_connection", reason=seen[0])

        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                client = await library.connect(
                    name=name,
                    connect_timeout=2,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,
                    ping_interval=PING_SECONDS,
                    error_cb=noted,
                    **options,
                )
        except (OSError, TimeoutError, library.errors.Error) as error:
            why = str(error) or " ".join(seen) or "no answer"
            reason = f"NATS at {', '.join(servers.urls)} cannot be reached: {why}"
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
