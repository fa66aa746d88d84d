"""Which partition a stream is in: a function of its workspace and path, the same in every process for ever.

Streams of the server's own, whose path begins with ``__``, go by their first folder: all agents of a
workspace are in one partition, so that listing them asks only that one. Streams of no workspace are in the
system partition. A fork is the exception: it is in the partition of its parent, whatever its path. The
partition that this function returns, its *home*, has a note of where the fork is.
"""

from hashlib import blake2b

from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.stream import SYSTEM_WORKSPACE

_INTERNAL = "__"
_HASH_BYTES = 8


def home_partition(workspace: str, path: str, of: int) -> int:
    """Return the number of the partition, of so many, that a path in a workspace belongs to."""
    if of == 1:
        return 0
    if workspace == SYSTEM_WORKSPACE:
        return SYSTEM
    if path.startswith(_INTERNAL):
        path = path.partition("/")[0]
    digest = blake2b(f"{workspace}\0{path}".encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % of
