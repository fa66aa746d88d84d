"""Object stores in the cloud or beside it, reached through obstore."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions
from obstore.store import from_url

from durable_sessions.bucket.objects import Listing, ObjectInfo
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    BucketRefusedError,
    ObjectExistsError,
    ObjectNotFoundError,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig
    from obstore.store import ObjectStore as Remote

CONNECT_SECONDS_MAX = 5.0
_CREDENTIALS = {
    "169.254.169.254/latest": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "metadata.google.internal": "GOOGLE_APPLICATION_CREDENTIALS",
    "169.254.169.254/metadata": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""Where credentials are looked for last, and what would have given them before."""
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}


class RemoteStore:
    """One try of each call; S3, GCS and Azure all refuse to create an object that exists."""

    def __init__(self, store: "Remote") -> None:
        self._store = store

    @classmethod
    def open(cls, url: str, call_seconds_max: float) -> "RemoteStore":
        """Reach a store by URL; nothing is sent yet."""
        try:
            # obstore's own retries are off: they hide that an earlier try may have taken effect.
            return cls(
                from_url(
                    url,
                    client_options=_client_options(url.partition("://")[0], call_seconds_max),
                    retry_config={"max_retries": 0},
                )
            )
        except (exceptions.BaseError, ValueError) as error:
            raise BucketRefusedError(
                problem=f"{url} cannot be reached ({_reason(error)})",
                remedy="Check its address and the environment variables that configure it.",
            ) from error

    async def create(self, path: str, data: bytes) -> None:
        """Create an object, or raise ObjectExistsError; of concurrent callers exactly one wins."""
        with _mapped(path):
            await obstore.put_async(self._store, path, data, mode="create")

    async def put(self, path: str, data: bytes) -> None:
        """Write an object, whether it exists or not."""
        with _mapped(path):
            # In one request: the parts of a multipart upload that is never finished stay, unseen.
            await obstore.put_async(self._store, path, data, use_multipart=False)

    async def get(self, path: str) -> bytes:
        """Return an object's content, or raise ObjectNotFoundError."""
        with _mapped(path):
            answer = await obstore.get_async(self._store, path)
            return bytes(await answer.bytes_async())

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, or fewer only where the object ends."""
        try:
            with _mapped(path):
                return bytes(await obstore.get_range_async(self._store, path, start=start, length=length))
        except BucketError as error:
            if "416 Range Not Satisfiable" in str(error.reason):
                return b""
            raise

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        with _mapped(paths[0]):
            try:
                await obstore.delete_async(self._store, paths)
            except FileNotFoundError:
                # Where objects are removed one by one, the first that is missing ends the call.
                for path in paths:
                    try:
                        await obstore.delete_async(self._store, path)
                    except FileNotFoundError:
                        continue

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return all objects under the path ``prefix`` whose path sorts behind ``after``, sorted by path."""
        with _mapped(prefix):
            found = await obstore.list(self._store, prefix or None, offset=after or None).collect_async()
        return sorted(
            ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))
            for meta in found
        )


def _client_options(scheme: str, call_seconds_max: float) -> "ClientConfig":
    """Return the HTTP options; given explicitly, they hide those of the environment, so add these."""
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
        "timeout": timedelta(seconds=call_seconds_max),
    }

    def value(name: str) -> str:
        return os.environ.get(f"{_VARIABLES[scheme]}_{name}", "")

    if value("ALLOW_HTTP").lower() in ("1", "true"):
        options["allow_http"] = True
    if value("PROXY_URL"):
        options["proxy_url"] = value("PROXY_URL")
    return options


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    try:
        yield
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
        # S3 answers this while a request for the same object is in flight: nobody has won yet.
        if "ConditionalRequestConflict" in str(error):
            raise BucketError(reason=_reason(error)) from error
        raise ObjectExistsError(path=path) from error
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise BucketDeniedError(reason="it does not exist") from error
        raise ObjectNotFoundError(path=path) from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise BucketDeniedError(reason=_reason(error)) from error
    except (exceptions.BaseError, OSError, ValueError) as error:
        raise BucketError(reason=_reason(error)) from error


def _reason(error: Exception) -> str:
    """Return what the error says without its debug dump, and what to set if it found no credentials."""
    said = str(error).partition("\n\nDebug source:")[0].strip()
    wanted = next((variables for place, variables in _CREDENTIALS.items() if place in said), None)
    if wanted is None:
        return said
    return f"no credentials were found; set {wanted}, or give this machine a role ({said})"
