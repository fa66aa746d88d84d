"""Authentication: from the key in a request to its caller."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from math import ceil
from typing import TypeVar

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key import LiveKey
from durable_sessions.access.key_table import KeyTable, TableProof
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    KeyRateExceededError,
    KeysUnprovenError,
    UnauthenticatedError,
)
from durable_sessions.http.api.browser_cookie import cookie_secret
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import AUTHORIZATION
from durable_sessions.shares import CURRENT_HOLDER, LOCAL

_AUTHORIZATION = AUTHORIZATION.key
T = TypeVar("T")

__all__ = ["Authenticator", "Caller", "Role"]


class Authenticator:
    """Determines the caller of a request. While there are no keys, that is the local caller, an admin.

    Counts the refusals.
    """

    def __init__(self, keys: KeyTable, clock: Clock, audit: Audit) -> None:
        self._audit = audit
        self._keys = keys
        self._clock = clock
        self._local = Caller(keys.home, "local", Role.ADMIN, None)
        self.unknown = 0
        self.rate_limited = 0

    @property
    def keys_required(self) -> bool:
        """Whether a request needs a key; also as long as nobody can know."""
        keys = self._keys
        return keys.required or (keys.proof is not None and keys.is_unproven)

    @property
    def keys_since_ms(self) -> int | None:
        """Since when every caller has shown a key that this server made; None if it has made none."""
        return self._keys.since_ms

    @property
    def keys_known(self) -> bool:
        """Whether a request needed a key when the table was last confirmed."""
        return self._keys.required

    @property
    def proof(self) -> TableProof | None:
        """What knows whether the table of keys may be relied on; None if it is this process's own."""
        return self._keys.proof

    async def renew_proof(self) -> None:
        """Try to have the table of keys confirmed, if it may be out of date."""
        await self._keys.renew_proof()

    def caller(self, request: Request) -> Caller:
        """Return the caller of a request, or refuse: no key, an unknown key, or too many requests.

        A request is authenticated, and counted in the rate of its key, only once: who it came from is kept
        with it, also when it is passed on to another process.
        """
        caller = request.caller
        if caller is not None:
            assert isinstance(caller, Caller)
            CURRENT_HOLDER.set(caller.key_id or LOCAL)
            return caller
        if self._keys.proof is not None:  # otherwise the table is this process's own
            self._keys.require_proven()
        if not self._keys.required:
            CURRENT_HOLDER.set(LOCAL)
            request.caller = self._local
            return self._local
        key = self._found(request)
        if key is None:
            raise self._unknown(request)
        now_ms = key.last_used_ms = self._clock.now_ms()
        metered = key if key.document.parent is None else self._keys.parent(key) or key
        if metered.rate is not None and (wait_seconds := metered.rate.take(now_ms)):
            self.rate_limited += 1
            raise KeyRateExceededError(
                key_id=metered.document.id,
                requests_per_second=f"{metered.document.requests_per_second:g}",
                retry_after_seconds=ceil(wait_seconds),
            )
        CURRENT_HOLDER.set(key.document.id)
        request.caller = key.caller
        return key.caller

    def known_caller(self, headers: dict[bytes, bytes], *, keyed: bool) -> Caller | None:
        """Return the caller if nothing about the key of a request could refuse it, else None.

        ``keyed`` says whether keys were required when the request was looked at otherwise. It counts as a use
        of the key. Keys with a rate are left to :meth:`caller`, which counts it.
        """
        keys = self._keys
        if keys.required is not keyed or (keys.proof is not None and not keys.proof.is_fresh()):
            return None
        if not keyed:
            return self._local
        key = keys.find(secret_of(headers))
        if key is None or key.rate is not None or key.document.parent is not None:
            return None
        key.last_used_ms = self._clock.now_ms()
        return key.caller

    def recognised(self, request: Request) -> Caller:
        """Return the caller of a request of which only the head has arrived; its rate is not counted yet.

        Whom the table knows may send the rest, even if it is out of date: the whole request is checked again.
        """
        if request.caller is not None:
            assert isinstance(request.caller, Caller)
            return request.caller
        if not self._keys.required:
            return self._local
        key = self._found(request)
        if key is None:
            self._keys.require_proven()
            raise self._unknown(request)
        return key.caller

    def key_id(self, request: Request) -> str | None:
        """Return the id of the key in a request, None if it is unknown; nothing is counted."""
        key = self._found(request)
        return None if key is None else key.document.id

    def _found(self, request: Request) -> LiveKey | None:
        """Return the key of a request: the one in a header, else the sign-in of a browser."""
        secret = secret_of(request.headers)
        if secret or b"cookie" not in request.headers:
            return self._keys.find(secret)
        return self._keys.find(cookie_secret(request), in_cookie=True)

    def _unknown(self, request: Request) -> UnauthenticatedError:
        return self.unknown_secret(secret_of(request.headers), request.id)

    def unknown_secret(self, sent: bytes, request_id: bytes) -> UnauthenticatedError:
        """Count and record a secret that admits nobody, and return the refusal."""
        self.unknown += 1
        if sent:
            self._audit.key_refused(self._keys.home, self._keys.revoked(sent), request_id.decode())
        return UnauthenticatedError(
            problem="The key is not known, was revoked, or has expired."
            if sent
            else "This needs a key, and none was sent."
        )

    async def require_valid(self, caller: Caller) -> None:
        """Refuse a caller whose key was revoked after the request was admitted."""
        await self._keys.renew_proof()
        if not self._keys.valid(caller):
            raise self._ended()

    def _ended(self) -> DurableSessionsError:
        """Return why a caller that was admitted is not valid any more."""
        if self._keys.is_unproven:
            return KeysUnprovenError()
        return UnauthenticatedError(problem="The key was revoked or has expired.")

    async def waiting(self, caller: Caller, answer: Awaitable[T]) -> T:
        """Await an answer for a caller; refuse as soon as the caller's key is revoked."""
        task = asyncio.current_task()
        assert task is not None
        forget = self._keys.watch(caller, task.cancel)
        try:
            return await answer
        except asyncio.CancelledError:
            if self._keys.valid(caller):
                raise
            # Cancelled by the watch above, not from outside: it becomes an answer, and the task goes on.
            task.uncancel()
            raise self._ended() from None
        finally:
            forget()
            del task  # a cancelled task keeps its frames alive: break the cycle

    def while_valid(
        self, caller: Caller, chunks: AsyncIterator[bytes], *, whole: bool = False
    ) -> AsyncIterator[bytes]:
        """Return the chunks of a streamed answer until the caller's key is revoked.

        A caller without a key is cut off when the first key is created. An answer that is useless unless it
        is ``whole`` is then aborted, not ended, so that a part is not taken for all of it.
        """
        return _WhileValid(self._keys, caller, chunks, whole=whole)


class _WhileValid:
    """A streamed answer that ends when its caller's key is revoked, even while it waits for data."""

    def __init__(self, keys: KeyTable, caller: Caller, chunks: AsyncIterator[bytes], *, whole: bool) -> None:
        self._end = asyncio.CancelledError if whole else StopAsyncIteration
        self._keys = keys
        self._caller = caller
        self._chunks = chunks
        self._forget: Callable[[], None] | None = None
        self._task: asyncio.Task[object] | None = None

    def __aiter__(self) -> "_WhileValid":
        return self

    async def __anext__(self) -> bytes:
        if self._task is None:
            self._task = asyncio.current_task()
            assert self._task is not None
            self._forget = self._keys.watch(self._caller, self._task.cancel)
        if not await self._is_valid():
            raise self._end
        try:
            chunk = await anext(self._chunks)
        except asyncio.CancelledError:
            if self._keys.valid(self._caller):
                raise
            self._task.uncancel()
            raise self._end from None
        # While it waited, the table may have become out of date, and nobody may have noticed yet.
        if self._keys.proof is not None and not await self._is_valid():
            raise self._end
        return chunk

    async def _is_valid(self) -> bool:
        if not self._keys.valid(self._caller):
            await self._keys.renew_proof()
        return self._keys.valid(self._caller)

    async def aclose(self) -> None:
        """End the answer."""
        forget, self._forget = self._forget, None
        self._task = None  # a cancelled task keeps its frames alive, which refer to self
        if forget is not None:
            forget()
        await close_iterator(self._chunks)


def secret_of(headers: dict[bytes, bytes]) -> bytes:
    """Return the key in a request, empty if none; ``x-api-key`` takes precedence over Authorization."""
    given = headers.get(b"x-api-key")
    if given is not None:
        return given
    scheme, _, given = headers.get(_AUTHORIZATION, b"").partition(b" ")
    return given.strip() if scheme.lower() == b"bearer" else b""
