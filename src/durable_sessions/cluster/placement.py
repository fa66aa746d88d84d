"""The operator's wishes for a cluster, as numbered objects of its bucket; the newest one counts."""

import hashlib

import msgspec

from durable_sessions.bucket.numbered import NumberedObjects
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.cluster.assignment import OperatorWishes
from durable_sessions.errors import ObjectDamagedError, ObjectExistsError

PLACEMENTS = "cluster/placement/"
VERSION = 1
DRAINED_MAX = 1_000
"""How many nodes may be drained at a time, by name."""
_KEPT = 10
_DIGEST_KEY = b',"sha256":"'


class ClusterPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Which node is to own a partition, by number and name, and which nodes are to own none."""

    number: int = 0
    overrides: dict[int, str] = {}
    drained: tuple[str, ...] = ()
    created_at_ms: int = 0
    version: int = VERSION

    @property
    def wishes(self) -> OperatorWishes:
        """What the assignment takes into account."""
        return OperatorWishes(self.overrides, frozenset(self.drained))

    def moved(self, partition: int, node: str) -> "ClusterPlacement":
        """Return wishes with one more: that a node owns a partition; none for it if the node is ''."""
        others = {number: name for number, name in self.overrides.items() if number != partition}
        return self._next(overrides={**others, **({partition: node} if node else {})})

    def drain(self, node: str) -> "ClusterPlacement":
        """Return wishes by which a node owns nothing, nor what it was wished to own."""
        others = {number: name for number, name in self.overrides.items() if name != node}
        return self._next(overrides=others, drained=tuple(sorted({*self.drained, node})))

    def undrain(self, node: str) -> "ClusterPlacement":
        """Return wishes by which a node owns its share again."""
        return self._next(drained=tuple(name for name in self.drained if name != node))

    def _next(self, **changes: object) -> "ClusterPlacement":
        return msgspec.structs.replace(self, number=self.number + 1, **changes)


NO_PLACEMENT = ClusterPlacement()


class Placements:
    """The wishes in a bucket; who changes them replaces exactly what it has read."""

    def __init__(self, bucket: ObjectStore) -> None:
        self._objects = NumberedObjects(bucket, PLACEMENTS, ".json")

    async def newest(self) -> ClusterPlacement:
        """Return the wishes that count now."""
        newest = await self._objects.newest()
        return NO_PLACEMENT if newest is None else _decoded(*newest)

    async def replace(self, placement: ClusterPlacement) -> bool:
        """Make wishes the newest; return False if somebody else has changed them meanwhile."""
        body = msgspec.json.encode(placement)
        digest = hashlib.sha256(body).hexdigest().encode()
        try:
            await self._objects.create_newest(placement.number, body[:-1] + _DIGEST_KEY + digest + b'"}')
        except ObjectExistsError:
            return False
        await self._objects.delete_before(placement.number - _KEPT)
        return True


def _decoded(number: int, data: bytes) -> ClusterPlacement:
    path = f"{PLACEMENTS}{number}"
    content, _, digest = data.rpartition(_DIGEST_KEY)
    body = content + b"}"
    if digest != hashlib.sha256(body).hexdigest().encode() + b'"}':
        raise ObjectDamagedError(path=path, problem="its digest is not that of its content")
    try:
        found = msgspec.json.decode(body, type=ClusterPlacement)
    except msgspec.MsgspecError as error:
        raise ObjectDamagedError(path=path, problem=f"it says nothing about nodes: {error}") from error
    if found.version != VERSION or found.number != number:
        problem = f"it is of version {found.version} and says that it is number {found.number}"
        raise ObjectDamagedError(path=path, problem=problem)
    return found
