"""The object store seam: immutable objects by path."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ObjectInfo(NamedTuple):
    """What a listing tells of one object."""

    path: str
    size: int
    modified_at_ms: int


Listing = list[ObjectInfo]


class ObjectStore(Protocol):
    """Objects by path. A path is segments joined by single slashes; none begins with a dot.

    After a :class:`BucketError` from a method that writes, it is not known whether it took
    effect. Nobody ever sees a part of an object.
    """

    async def create(self, path: str, data: bytes) -> None:
        """Create an object durably, or raise ObjectExistsError; of concurrent callers exactly one wins."""
        ...

    async def put(self, path: str, data: bytes) -> None:
        """Write an object durably, whether it exists or not."""
        ...

    async def get(self, path: str) -> bytes:
        """Return an object's content, or raise ObjectNotFoundError."""
        ...

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, or fewer only where the object ends.

        :class:`Bucket`, through which all others read, raises instead of returning fewer.
        """
        ...

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        ...

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return all objects under the path ``prefix`` (whole segments; "" for all), sorted by path.

        With ``after``, those alone whose path sorts behind it, whether or not there is such an object.
        """
        ...
