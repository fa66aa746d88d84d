"""Who a request says that it comes from, where that can be told apart by name only."""

import re

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidHeaderError, PrincipalMismatchError
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import SESSION_PRINCIPAL

_SESSION_PRINCIPAL = SESSION_PRINCIPAL.key
_PRINCIPAL = re.compile(r"[A-Za-z0-9._:@-]{1,128}", re.ASCII)


def declared(request: Request, caller: Caller) -> Caller:
    """Return the caller under the name that it gives itself; with keys only that of the key is allowed.

    Without keys everybody is the local admin, so only names tell a worker from its judge, and they are
    believed: views say so.
    """
    value = request.headers.get(_SESSION_PRINCIPAL)
    if value is None:
        return caller
    name = value.decode("latin-1")
    if not _PRINCIPAL.fullmatch(name):
        raise InvalidHeaderError(
            header=SESSION_PRINCIPAL.name, problem="send 1 to 128 of A-Z a-z 0-9 . _ : @ -, or leave it out"
        )
    if caller.key_id is not None and name != caller.principal:
        raise PrincipalMismatchError(declared=name, principal=caller.principal)
    return caller._replace(principal=name)
