"""Looks registered objects up wherever they are: all of one kind and workspace are in one partition."""

from typing import NamedTuple

from durable_sessions.access.caller import Caller
from durable_sessions.bounded_cache import BoundedCache
from durable_sessions.errors import RegisteredObjectNotFoundError
from durable_sessions.http.api.neighbours import Neighbours
from durable_sessions.managed_agents.registry import Registry, StoredObject

ENTRY_BYTES = 300
"""About how much memory an entry of the cache takes besides the document."""


class Asked(NamedTuple):
    """Which version of an object is asked for, None for the newest."""

    kind: str
    name: str
    version: int | None


class LookupAnswer(NamedTuple):
    """What the owner of a registry says of an object; None if it, or that version, is unknown."""

    is_known: bool
    stored: StoredObject | None


class _Version(NamedTuple):
    workspace: str
    name: str
    version: int


class RegistryLookup:
    """Objects of one kind; the document of a version never changes, so those of other partitions are kept."""

    def __init__(self, registry: Registry, neighbours: Neighbours, path: bytes) -> None:
        self._registry = registry
        self._neighbours = neighbours
        self._path = path
        self._versions: BoundedCache[_Version, StoredObject] = BoundedCache(
            registry.limits.registry_cache_bytes_max, _size
        )

    async def find(self, caller: Caller, name: str, version: int | None = None) -> StoredObject | None:
        """Return an object, None if there is none; a version that it does not have is refused.

        Of a version that is asked for, it is not said whether the object was archived meanwhile.
        """
        workspace = caller.workspace
        if self._neighbours.is_home(workspace, self._registry.folder):
            return await self._registry.find(workspace, name, version)
        if version is not None:
            known = self._versions.get(_Version(workspace, name, version))
            if known is not None:
                return known
        owner = self._neighbours.home(workspace, self._registry.folder)
        asked = Asked(self._registry.kind.name, name, version)
        said: LookupAnswer = await self._neighbours.read(owner, self._path, caller, asked, LookupAnswer)
        if said.is_known and said.stored is None:
            raise RegisteredObjectNotFoundError(kind=asked.kind, name=f"{name}, version {version}")
        if version is not None and said.stored is not None:
            self._versions.put(_Version(workspace, name, version), said.stored)
        return said.stored

    async def answer(self, workspace: str, asked: Asked) -> LookupAnswer:
        """Answer the question of another partition."""
        try:
            found = await self._registry.find(workspace, asked.name, asked.version)
        except RegisteredObjectNotFoundError:
            return LookupAnswer(is_known=True, stored=None)
        return LookupAnswer(found is not None, found)


def _size(version: _Version, stored: StoredObject) -> int:
    return ENTRY_BYTES + len(version.name) + len(stored.document)
