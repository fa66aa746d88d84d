"""Which incarnation of a session a call is for: a deleted session's id can be given to another one."""

import re
from dataclasses import replace
from typing import TypeVar

import httpx2

from durable_sessions.client.call import ApiCall

HEADER = "Session-Incarnation"
_READS = ("GET", "HEAD")
_INCARNATION = re.compile(r'"([0-9a-f]{12})"', re.ASCII)

T = TypeVar("T")


class PinnedIncarnation:
    """The incarnation that a session handle is bound to: the first one that answered it."""

    def __init__(self, incarnation: str | None = None) -> None:
        self.incarnation = incarnation

    def learn(self, answer: httpx2.Response) -> None:
        """Bind to the incarnation that answered, unless already bound. Old servers do not name it."""
        if self.incarnation is None:
            self.incarnation = answer.headers.get(HEADER)

    def pin(self, call: ApiCall[T]) -> ApiCall[T]:
        """Return the call, restricted to this incarnation; its answer binds an unbound handle."""
        pinned = require_incarnation(call, self.incarnation)

        def read(answer: httpx2.Response) -> T:
            self.learn(answer)
            return call.read(answer)

        return replace(pinned, read=read)


def require_incarnation(call: ApiCall[T], incarnation: str | None) -> ApiCall[T]:
    """Return the call, refused by the server unless the session is this incarnation; None allows any."""
    if incarnation is None:
        return call
    # An If-Match that names an offset cannot name the incarnation as well; then it is a parameter.
    if call.method in _READS or "If-Match" in call.headers:
        return replace(call, parameters=(*call.parameters, ("incarnation", incarnation)))
    return replace(call, headers={**call.headers, "If-Match": f'"{incarnation}"'})


def required_incarnation(request: httpx2.Request) -> str | None:
    """Return the incarnation that a request was restricted to, None if any would do."""
    parameter: str | None = request.url.params.get("incarnation")
    condition = _INCARNATION.fullmatch(request.headers.get("If-Match", ""))
    return parameter if condition is None else condition[1]
