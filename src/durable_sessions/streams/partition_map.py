"""Which partition a stream is in: a function of its workspace and path, the same in every process for ever.

Streams of the server's own, whose path begins with ``__``, go by their first folder: all agents of a
workspace are in one partition, so that listing them asks only that one. Streams of no workspace are in the
system partition. A fork is the exception: it is in the partition of its parent, whatever its path. The
partition that this function returns, its *home*, has a note of where the fork is, which is in that same home.
"""

from hashlib import blake2b

from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.placements import named_by
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key

_INTERNAL = "__"
_BESIDE = {"__memory_stores": "__memory", "__files": "__artifacts"}
"""Folders that are in the partition of another one: stores and files are where their contents are."""
_HASH_BYTES = 8


def home_partition(workspace: str, path: str, of: int) -> int:
    """Return the number of the partition, of so many, that a path in a workspace belongs to."""
    if of == 1:
        return 0
    if workspace == SYSTEM_WORKSPACE:
        name = named_by(Key(workspace, path))
        return SYSTEM if name is None else home_partition(*name, of)
    if path.startswith(_INTERNAL):
        folder = path.partition("/")[0]
        path = _BESIDE.get(folder, folder)
    digest = blake2b(f"{workspace}\0{path}".encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % of
