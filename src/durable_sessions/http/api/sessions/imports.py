"""Imports: events that happened elsewhere, marked as what they are."""

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import InvalidHeaderError
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import SESSION_IMPORT
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph.schemas import Imported

_SESSION_IMPORT = SESSION_IMPORT.key


def asked(request: Request, caller: Caller, limits: Limits) -> Imported | None:
    """Return how events are marked that a request imports; None if it does not import."""
    source = request.headers.get(_SESSION_IMPORT)
    if source is None:
        return None
    if not 0 < len(source) <= limits.import_source_max:
        raise InvalidHeaderError(
            header=SESSION_IMPORT.name,
            problem=f"name where the events come from, in 1 to {limits.import_source_max} bytes",
        )
    return "trusted" if caller.role >= Role.ADMIN else "untrusted"
