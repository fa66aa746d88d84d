"""The bucket: an object store opened by its address, with a bound on time and retries."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from durable_sessions.bucket.local import LocalStore
from durable_sessions.bucket.objects import Listing, ObjectStore
from durable_sessions.bucket.remote import RemoteStore
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    BucketRefusedError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.ids import Ids, RandomIds

CALL_SECONDS_MAX = 60.0
"""How long one try of a call may take."""
RANGE_SECONDS_MAX = 15.0
"""How long a range, which somebody waits for, may take with all its tries; each gets a third of it."""
LIST_SECONDS_MAX = 300.0
"""How long one try of a listing may take: it is many requests."""
TRIES_MAX = 4
"""How often a call is made before its failure is told."""
RETRY_SECONDS_MIN = 0.1
"""The shortest pause before the second try; jitter adds up to as much again, and it doubles with each try."""

SCHEMES = ("s3://", "gs://", "az://")

_Answer = TypeVar("_Answer")


class Bucket:
    """An object store whose calls are bounded in time and tried again a bounded number of times.

    A conditional create that is tried again may meet the object of its own first try. It then
    counts as a success if the content is what was sent.
    """

    def __init__(
        self,
        store: ObjectStore,
        location: str,
        *,
        ids: Ids | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        call_seconds_max: float = CALL_SECONDS_MAX,
    ) -> None:
        self.location = location
        self._store = store
        self._ids = ids or RandomIds()
        self._pause = pause
        self._seconds = call_seconds_max

    @classmethod
    async def open(cls, location: str | Path) -> "Bucket":
        """Open a directory, which is created if it is missing, or ``s3://``, ``gs://``, ``az://name/prefix``.

        Credentials, endpoint and region come from the usual environment variables of each store.
        """
        name = str(location)
        store: ObjectStore
        if isinstance(location, str) and name.startswith(SCHEMES):
            store = RemoteStore.open(name, CALL_SECONDS_MAX)
        elif isinstance(location, str) and "://" in name:
            raise BucketRefusedError(
                problem=f"the scheme of {name} is not known",
                remedy=f"Give a directory, or a URL that begins with one of {', '.join(SCHEMES)}.",
            )
        else:
            store = await LocalStore.open(Path(location))
        return cls(store, name)

    async def create(self, path: str, data: bytes) -> None:
        """Create an object durably, or raise ObjectExistsError; of concurrent callers exactly one wins."""
        unsure = False

        async def attempt() -> None:
            nonlocal unsure
            try:
                await self._store.create(path, data)
            except ObjectExistsError:
                # After a try without an answer, the object may be our own. Its content tells: no two writers
                # send the same bytes.
                if unsure and await self._holds(path, data):
                    return
                raise
            except BaseException:
                unsure = True
                raise

        await self._try(attempt)

    async def _holds(self, path: str, data: bytes) -> bool:
        try:
            return await self._store.get(path) == data
        except ObjectNotFoundError as error:
            raise BucketError(reason=f"{path} is said to exist and not to exist") from error

    async def put(self, path: str, data: bytes) -> None:
        """Write an object durably; only for content that is the same whoever writes it."""
        await self._try(lambda: self._store.put(path, data))

    async def get(self, path: str) -> bytes:
        """Return an object's content, or raise ObjectNotFoundError."""
        return await self._try(lambda: self._store.get(path))

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``start``, or raise."""

        async def attempt() -> bytes:
            data = await self._store.get_range(path, start, length)
            if len(data) != length:
                raise ObjectDamagedError(
                    path=path, problem=f"{len(data)} of {length} bytes came from byte {start}"
                )
            return data

        # A reader waits for this: a bound on all tries together, and each shorter than for other calls.
        seconds = min(RANGE_SECONDS_MAX, self._seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._try(attempt, seconds / 3)
        except TimeoutError as error:
            raise BucketError(reason=f"there was no answer within {seconds:g} seconds") from error

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        if paths:
            await self._try(lambda: self._store.delete(paths))

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return all objects under the path ``prefix`` (whole segments; "" for all), sorted by path.

        With ``after``, those alone whose path sorts behind it, whether or not there is such an object.
        """
        return await self._try(lambda: self._store.list(prefix, after=after), LIST_SECONDS_MAX)

    async def _try(self, attempt: Callable[[], Awaitable[_Answer]], seconds: float | None = None) -> _Answer:
        allowed = self._seconds if seconds is None else seconds
        tries = 0
        while True:
            failure: BucketError | ObjectDamagedError
            try:
                async with asyncio.timeout(allowed):
                    return await attempt()
            except BucketDeniedError:
                raise  # trying again changes no permission
            except TimeoutError as error:
                failure = BucketError(reason=f"there was no answer within {allowed:g} seconds")
                failure.__cause__ = error
            except (BucketError, ObjectDamagedError) as error:
                failure = error
            tries += 1
            if tries == TRIES_MAX:
                raise failure
            await self._pause(RETRY_SECONDS_MIN * 2**tries * (0.5 + self._ids.fraction() / 2))
