"""The audit entry for a deletion."""

from durable_sessions.access.audit import Act
from durable_sessions.access.caller import Caller
from durable_sessions.http.carrier.message import Request


def deletion(caller: Caller, request: Request, kind: str, name: str, **details: object) -> Act:
    """Return the audit entry for deleting an object of a kind by its name."""
    return Act(f"{kind}.deleted", caller, caller.workspace, request.id.decode(), {kind: name, **details})
