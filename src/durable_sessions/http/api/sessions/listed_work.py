"""The work on sessions in lists: forks of one, who gets them next, leases, and whether they are done."""

from durable_sessions.errors import SessionNotFoundError
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi.sessions import DONE, LEASE, WAITS_FOR
from durable_sessions.sessions import indexing, record, view
from durable_sessions.sessions.session_lists import Wanted
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.door import StreamView


class ListedWork:
    """The filters of a list by the work on sessions; ``pairs`` are what the index finds them by."""

    def __init__(self, parameters: Parameters, sessions: Sessions, workspace: str) -> None:
        self.pairs: dict[str, str] = {}
        self._sessions = sessions
        self._tests: list[Wanted] = []
        if (source := parameters.text("forked_from")) is not None:
            self.pairs[indexing.FORKED_FROM] = source
            self._tests.append(self._forks(workspace, source))
        if (principal := parameters.text("routed_to")) is not None:
            self.pairs[indexing.ROUTED_TO] = principal
            self._tests.append(lambda one: _routed_to(one) == principal)
        if parameters.word(WAITS_FOR):
            self.pairs[indexing.WAITS_FOR] = indexing.APPROVAL
            self._tests.append(asks_a_person)
        if lease := parameters.word(LEASE):
            if lease != "none":  # which most sessions are, so that no index makes it cheaper
                self.pairs[indexing.LEASE] = indexing.LEASED
            self._tests.append(lambda one: self._lease(one) == lease)
        if done := parameters.word(DONE):
            self.pairs[indexing.DONE] = done
            self._tests.append(lambda one: _is_done(one) is (done == "true"))

    def also(self, wanted: Wanted) -> Wanted:
        """Return a filter that lets pass what another one does, if the work is as it was asked for."""
        if not self._tests:
            return wanted
        return lambda one: all(test(one) for test in self._tests) and wanted(one)

    def _forks(self, workspace: str, source: str) -> Wanted:
        """Return what tells the forks of a session from those of another one that had its id."""
        try:
            number = self._sessions.find(session_key(workspace, source)).stream.id
        except SessionNotFoundError:
            return lambda _one: False  # deleted, or in another partition, where its forks are, too
        return lambda one: one.stream.parent == number

    def _lease(self, one: StreamView) -> str:
        control = view.control_of(one)
        lease = None if control is None else control.core.lease
        if lease is None or lease.released or _is_over(one):
            return "none"
        expires_ms = self._sessions.times.expires_ms(one.stream.id, lease)
        return "held" if expires_ms > self._sessions.now_ms() else "expired"


def asks_a_person(one: StreamView) -> bool:
    """Say whether a session that goes on waits for a decision."""
    return not _is_over(one) and view.awaits_approval(one.attributes)


def _is_over(one: StreamView) -> bool:
    return one.closed or record.ARCHIVED in one.attributes


def _routed_to(one: StreamView) -> str | None:
    control = view.control_of(one)
    return None if control is None or control.core.route is None else control.core.route.to


def _is_done(one: StreamView) -> bool | None:
    control = view.control_of(one)
    return None if control is None else control.done
