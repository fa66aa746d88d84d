"""Which life of a session is meant: an id can be given to another session when the first one is deleted."""

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
    """The life of a session that a handle means: the first one that has answered it, and no other."""

    def __init__(self, incarnation: str | None = None) -> None:
        self.incarnation = incarnation

    def learn(self, answer: httpx2.Response) -> None:
        """Take note of which life has answered, if none has before; servers of old do not say."""
        if self.incarnation is None:
            self.incarnation = answer.headers.get(HEADER)

    def meant(self, call: ApiCall[T]) -> ApiCall[T]:
        """Return a call that is carried out only if the session is the one that is meant."""
        asked = only(call, self.incarnation)

        def read(answer: httpx2.Response) -> T:
            self.learn(answer)
            return call.read(answer)

        return replace(asked, read=read)


def only(call: ApiCall[T], incarnation: str | None) -> ApiCall[T]:
    """Return a call that is carried out only for one life of a session, for any if it is None."""
    if incarnation is None:
        return call
    # An If-Match that names an offset cannot name the incarnation as well; then it is a parameter.
    if call.method in _READS or "If-Match" in call.headers:
        return replace(call, parameters=(*call.parameters, ("incarnation", incarnation)))
    return replace(call, headers={**call.headers, "If-Match": f'"{incarnation}"'})


def sent(request: httpx2.Request) -> str | None:
    """Return the life of a session that a request was meant for, None if for any."""
    asked: str | None = request.url.params.get("incarnation")
    condition = _INCARNATION.fullmatch(request.headers.get("If-Match", ""))
    return asked if condition is None else condition[1]
