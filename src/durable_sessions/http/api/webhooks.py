"""Webhook delivery: signed, to checked addresses only, with limits on everything."""

import asyncio
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpcore2
import msgspec

from durable_sessions import __version__
from durable_sessions.clock import Clock
from durable_sessions.errors import WebhookUrlRejectedError
from durable_sessions.fair_queue import FairQueue
from durable_sessions.http.api.signing import SigningKeys
from durable_sessions.http.api.webhook_urls import Reach, WebhookTarget, parse
from durable_sessions.http.openapi.request_headers import ACCEPT_ENCODING
from durable_sessions.limits import Limits
from durable_sessions.storage.subscriptions import Delivery, DeliveryResult

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_USER_AGENT = f"durable-sessions/{__version__}".encode()


class _Answer(msgspec.Struct):
    done: bool = False


@functools.cache
def default_ssl_context() -> ssl.SSLContext:
    """Return how receivers are verified: by all authorities of this system, which take long to read."""
    return httpcore2.default_ssl_context()


class _PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that were checked, even if the name resolves differently now (DNS rebinding)."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the interface asks for it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: httpcore2.ConnectError | None = None
        for address in self._addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host} has no address")


class WebhookSender:
    """Sends webhooks, a limited number at a time, and never follows redirects."""

    def __init__(
        self,
        signing_keys: SigningKeys,
        clock: Clock,
        limits: Limits,
        reach: Callable[[], Reach],
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._signing_keys = signing_keys
        self._clock = clock
        self._limits = limits
        self._reach = reach
        self._slots = FairQueue(limits.webhook_deliveries_max)
        # Separate threads: a resolver that hangs must not block those of the log.
        self._resolver = ThreadPoolExecutor(limits.resolver_threads_max, "webhook-resolver")
        self._resolve = resolve or self._resolve_by_system
        self._ssl_context = ssl_context or default_ssl_context()
        self.accepted = 0
        self.failed = 0

    async def close(self) -> None:
        """Stop the resolver's threads."""
        self._resolver.shutdown(wait=False, cancel_futures=True)

    async def deliver(self, delivery: Delivery) -> DeliveryResult:
        """Send one webhook and return the outcome; it never raises."""
        async with self._slots.part(delivery.key.workspace):
            result = await self._try_to_send(delivery)
        self.accepted += result.accepted
        self.failed += not result.accepted
        return result

    async def _try_to_send(self, delivery: Delivery) -> DeliveryResult:
        try:
            async with asyncio.timeout(self._limits.webhook_seconds_max):
                return await self._send(delivery)
        except TimeoutError:
            return _failed(f"no complete answer within {self._limits.webhook_seconds_max:g} seconds")
        except Exception as error:  # any failure means that the receiver has not accepted it
            return _failed(f"{type(error).__name__}: {error}")

    async def _send(self, delivery: Delivery) -> DeliveryResult:
        target = parse(delivery.url, self._reach())
        body = self._body(delivery)
        headers = [
            (b"Host", _host_header(target)),
            (b"Content-Type", b"application/json"),
            (b"User-Agent", _USER_AGENT),
            (ACCEPT_ENCODING.key, b"identity"),
            (b"Webhook-Signature", self._signing_keys.signature(body, self._clock.now_ms() // 1000).encode()),
        ]
        url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.target)
        backend = _PinnedBackend(await self._addresses(target))
        async with (
            httpcore2.AsyncConnectionPool(self._ssl_context, network_backend=backend) as pool,
            pool.stream("POST", url, headers=headers, content=body) as response,
        ):
            if not 200 <= response.status < 300:
                return _failed(f"the receiver answered {response.status}")
            return DeliveryResult(accepted=True, done=await self._is_done(response))

    async def _addresses(self, target: WebhookTarget) -> list[str]:
        """Return the addresses to connect to; checked at every delivery, since DNS can change."""
        found = await self._resolve(target.host, target.port)
        allowed = [address for address in found if target.allows(address)]
        if not allowed:
            raise WebhookUrlRejectedError(
                problem=f"{target.host} has no address that webhooks may be sent to: {', '.join(found)}"
            )
        return allowed

    async def _resolve_by_system(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._resolver, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def _body(self, delivery: Delivery) -> bytes:
        expires_at_seconds = self._clock.now_ms() // 1000 + self._limits.token_seconds_max
        path = f"/v1/stream/__ds/subscriptions/{quote(delivery.key.id, safe='')}/callback"
        return msgspec.json.encode(
            {
                "subscription_id": delivery.key.id,
                "wake_id": delivery.wake_id,
                "generation": delivery.generation,
                "streams": delivery.streams,
                "callback_url": delivery.base_url + path,
                "callback_token": self._signing_keys.issue_token(
                    delivery.key, delivery.generation, expires_at_seconds
                ),
            }
        )

    async def _is_done(self, response: httpcore2.Response) -> bool:
        """Say whether the receiver has finished the work already; any other answer means that it has not."""
        body = b""
        async for chunk in response.aiter_stream():
            body += chunk
            if len(body) > self._limits.webhook_answer_bytes_max:
                return False
        try:
            return msgspec.json.decode(body, type=_Answer).done
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False


def _failed(problem: str) -> DeliveryResult:
    return DeliveryResult(accepted=False, problem=problem)


def _host_header(target: WebhookTarget) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    is_default = target.port == (443 if target.scheme == "https" else 80)
    return (host if is_default else f"{host}:{target.port}").encode()
