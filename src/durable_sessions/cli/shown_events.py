"""Where the last events of a session begin, counting only those that a person is shown."""

from durable_sessions.cli.connection import ServerConnection
from durable_sessions.client import SessionInfo, encoding, offsets
from durable_sessions.client.pages import type_parameters
from durable_sessions.rendering.entries import entry_of

FIRST_EVENTS = 100
MORE_TIMES = 8
"""The factor by which more events are read if too few of them were shown."""


def start_of_last(
    connection: ServerConnection,
    info: SessionInfo,
    count: int,
    *,
    types: tuple[str, ...] = (),
    everything: bool,
) -> int:
    """Return the position from which on ``count`` events are shown, 0 if there are fewer.

    ``everything`` says that bookkeeping is shown, too.
    """
    end = offsets.position(info.next_offset)
    if count == 0 or (everything and not types):
        return max(0, end - count)
    # Only reading tells which events are bookkeeping. So they are read backwards from the end, and each time
    # it was not enough, several times as many: a long tail of bookkeeping costs few requests.
    parameters = (("order", "desc"), *type_parameters(types))
    limit = max(FIRST_EVENTS, 2 * count)
    while True:
        read = shown = 0
        for line in connection.lines(info.id, *parameters, limit=limit):
            read += 1
            event = encoding.decode(line)
            shown += everything or not entry_of(event).quiet
            if shown == count:
                return offsets.position(event["offset"])
        if read < limit:
            return 0
        limit *= MORE_TIMES
