"""Numbered objects: create the next number if nobody has."""

import re
from pathlib import PurePosixPath

from durable_sessions.bucket.layout import FLUSH_DIGITS
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import (
    BucketError,
    BucketRefusedError,
    ObjectExistsError,
    ObjectNotFoundError,
)

POSITION_DIGITS = 20
"""How many digits a position of a log has in a name. A new log on a bucket begins 2**40 beyond the old one,
which 12 digits cannot hold even once; 20 hold every 64-bit number."""
LOOKS_MAX = 10
"""How often the newest object is looked for while others are removing old ones."""
NAMES_MAX = 1_000
"""How many names are tried for an object whose own name is taken."""


class NumberedObjects:
    """Objects ``<prefix><digits><suffix>``; among rivals for a number exactly one succeeds.

    All names are equally long, so that they sort as their numbers do. Manifests have 12 digits, which are
    enough for what goes up by one; what is numbered by positions of a log needs ``POSITION_DIGITS``.
    """

    def __init__(self, bucket: ObjectStore, prefix: str, suffix: str, digits: int = FLUSH_DIGITS) -> None:
        assert prefix.endswith("/")
        self._bucket = bucket
        self._prefix = prefix
        self._suffix = suffix
        self._digits = digits
        self._name = re.compile(rf"{re.escape(prefix)}(\d{{{digits}}}){re.escape(suffix)}", re.ASCII)

    def path(self, number: int) -> str:
        """Return the path of the object with this number, or refuse one that its names cannot hold."""
        # A longer name would sort in the wrong place and be overlooked, and with it whom it fences.
        if not 0 <= number < 10**self._digits:
            raise BucketRefusedError(
                problem=f"objects under {self._prefix} have {self._digits} digits, too few for {number}",
                remedy="This program counts up by one, so that something else wrote the newest of them.",
            )
        return f"{self._prefix}{number:0{self._digits}d}{self._suffix}"

    async def numbers(self, after: int | None = None) -> list[int]:
        """Return every number that exists, in order, or of them those after one."""
        listed = await self._bucket.list(self._prefix, after="" if after is None else self.path(after))
        found = (self._name.fullmatch(info.path) for info in listed)
        return sorted(int(match[1]) for match in found if match)

    async def get(self, number: int) -> bytes:
        """Return the object with this number, or raise ObjectNotFoundError."""
        return await self._bucket.get(self.path(number))

    async def newest(self) -> tuple[int, bytes] | None:
        """Return the highest number and its object, None if there is none."""
        for _ in range(LOOKS_MAX):
            numbers = await self.numbers()
            if not numbers:
                return None
            try:
                return numbers[-1], await self.get(numbers[-1])
            except ObjectNotFoundError:
                continue  # it was replaced by a newer one and removed in between
        raise BucketError(reason=f"the newest object under {self._prefix} keeps vanishing")

    async def create(self, number: int, data: bytes) -> None:
        """Create the object with this number durably, or raise ObjectExistsError if a rival has."""
        await self._bucket.create(self.path(number), data)

    async def create_newest(self, number: int, data: bytes) -> None:
        """Create the object with this number durably, or raise ObjectExistsError if a rival is ahead.

        The store's condition alone does not notice a rival who is so far ahead that this number has been
        removed again, so the numbers are listed afterwards.
        """
        # First create, then list: the other way round, a rival could get ahead between the two.
        await self.create(number, data)
        if await self.numbers(after=number):
            raise ObjectExistsError(path=self.path(number))

    async def delete_before(self, number: int) -> None:
        """Remove every object with a lower number, oldest first."""
        await self._bucket.delete([self.path(old) for old in await self.numbers() if old < number])


async def create_beside(bucket: ObjectStore, path: str, data: bytes) -> str:
    """Create an object durably under ``path``, or where that is taken, beside it; return its path.

    A crash may have left an object with the same name and other content; nothing refers to it
    and it is never overwritten, because its writer may be alive after all.
    """
    name = PurePosixPath(path)
    for again in range(NAMES_MAX):
        tried = path if not again else str(name.with_stem(f"{name.stem}-{again}"))
        try:
            await bucket.create(tried, data)
        except ObjectExistsError:
            continue
        return tried
    raise ObjectExistsError(path=path)
