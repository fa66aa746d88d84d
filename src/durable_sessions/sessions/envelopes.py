"""Messages of others in a session: each is wrapped as an event of a type of its own, its bytes untouched.

Libraries for plain streams send messages that collide with what an event is: they repeat ``id``, and have no
``type`` of ours. Wrapped, they are kept and read back as they came.
"""

import re
from collections.abc import Sequence

from durable_sessions.errors import InvalidHeaderError
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.json_members import members
from durable_sessions.streams import messages

HEADER = "Stream-Envelope"
_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,49}(\.[a-z0-9_-]{1,49}){1,3}", re.ASCII)
_THEIRS = ("agent.", "ds.", "session.", "span.", "system.", "user.", "workflow_run.")


def asked(value: bytes | None) -> str | None:
    """Return the type of event that a header asks for; one that means something to a session is refused."""
    if value is None:
        return None
    kind = value.decode("latin-1")
    if not _TYPE.fullmatch(kind) or kind.startswith(_THEIRS) or strict.is_strict(kind):
        raise InvalidHeaderError(header=HEADER, problem="name a type of your own, such as ai.chunk")
    return kind


def wrapped(body: bytes, kind: str, limits: Limits) -> bytes:
    """Return the messages of a body as events; each keeps its bytes."""
    values = messages.split(body, limits)
    return b"[%b]" % b",".join([b'{"type":"%b","raw":%b}' % (kind.encode(), value) for value in values])


def unwrapped(pieces: Sequence[memoryview], kind: str) -> bytes:
    """Return the messages among some records, as a JSON array; events of other types are left out."""
    found: list[bytes] = []
    wanted = b'"%b"' % kind.encode()
    for record in messages.cut(b"".join(pieces)) if pieces else ():
        if wanted in record:
            said = {member.key: member.value for member in members(record)}
            if said.get("type") == wanted and "raw" in said:
                found.append(said["raw"])
    return b"[%b]" % b",".join(found)
