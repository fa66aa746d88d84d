"""Which index a stream is in: one for the sessions of a workspace, another for its memory scopes.

They are apart because the words of one must not count in the ranking of the other, and because a search in
sessions must find no memory.
"""

from durable_sessions.sessions.memory.records import FOLDER as MEMORY
from durable_sessions.sessions.record import FOLDER as SESSIONS
from durable_sessions.streams.stream import Key

PREFIXES = (SESSIONS + "/", MEMORY + "/")
"""What the paths of indexed streams begin with."""
_OF_MEMORY = "+memory"
"""No workspace has a plus sign in its name."""


def index_name(key: Key) -> str | None:
    """Return the name of the index that has a stream, None if none does."""
    if key.path.startswith(PREFIXES[0]):
        return key.workspace
    return key.workspace + _OF_MEMORY if key.path.startswith(PREFIXES[1]) else None
