"""The errors of the client: one class for each kind of failure."""

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """The base of all errors that the client raises.

    ``outcome_unknown`` says that the request may have been carried out all the same: an answer was lost.
    """

    outcome_unknown: bool = False

    @property
    def certain(self) -> bool:
        """Whether the error proves that no attempt was carried out, not even one whose answer was lost."""
        return False


class ConnectionFailedError(ClientError):
    """No answer came from the server in any of the attempts."""

    def __init__(
        self,
        url: str,
        reason: str,
        *,
        attempts: int = 1,
        outcome_unknown: bool = False,
        is_final: bool = False,
    ) -> None:
        tried = "once" if attempts == 1 else f"{attempts} times"
        check = "" if is_final else "Check that the server runs there and can be reached; the"
        super().__init__(
            f"No answer from {url}, tried {tried}: {reason}. {check or 'The'} address comes from "
            "Client(url=…) or the variable DURABLE_SESSIONS_URL."
        )
        self.url = url
        self.reason = reason
        self.attempts = attempts
        self.outcome_unknown = outcome_unknown
        self.is_final = is_final
        """Whether another attempt would end in the same way, as with the wrong protocol."""


class DigestMismatchError(ClientError):
    """The bytes received do not have the SHA-256 that was asked for: they were changed or cut on the way."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"The artifact {expected} arrived with the SHA-256 {found}. Get it again.")
        self.expected = expected
        self.found = found


class UnexpectedAnswerError(ClientError):
    """The answer is not one of a Durable Sessions server."""

    outcome_unknown = True

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"{url} answered something else than a Durable Sessions server would: {problem}. Check the "
            "address, and whether a proxy in front of the server answers in its place."
        )
        self.url = url


class WriterClosedError(ClientError):
    """The writer was closed before this event was given to it."""

    def __init__(self) -> None:
        super().__init__("The writer is closed. Make another one with session.writer().")


class ReplayDivergedError(ClientError):
    """A harness calls something else than it did when the session was recorded."""


class ReplayWriteError(ClientError):
    """A replay reads what is recorded and changes nothing on the server."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(
            f"A replay writes nothing, and {method} {path} would. To run it with effects, work on a fork."
        )


class RecordedFailureError(ClientError):
    """In a replay: the tool had failed when it was recorded; the message is its result."""


class ApiError(ClientError):
    """The server refused a request; ``message`` says what to send instead."""

    def __init__(
        self,
        status: int,
        type: str,  # noqa: A002 - the name on the wire
        message: str,
        request_id: str | None = None,
        details: Mapping[str, Any] | None = None,
        *,
        outcome_unknown: bool = False,
    ) -> None:
        request = "" if request_id is None else f", request {request_id}"
        super().__init__(f"{message} (status {status}{request})")
        self.status = status
        self.type = type
        self.message = message
        self.request_id = request_id
        self.details: dict[str, Any] = dict(details or {})
        self.outcome_unknown = outcome_unknown and not self.certain
        self.by_server = True
        """Whether a Durable Sessions server sent the answer, and not a proxy or another program."""

    def __str__(self) -> str:
        said = super().__str__()
        if self.outcome_unknown:
            said += " The outcome of an attempt is not known: it may have been carried out all the same."
        return said

    @property
    def certain(self) -> bool:
        """Whether the error proves that no attempt was carried out, not even one whose answer was lost.

        It does if it follows from the request alone (400, 413), or if the server checks for an earlier
        attempt before it answers so (412).
        """
        return self.status in (400, 412, 413)

    @property
    def code(self) -> str:
        """The stable code of the refusal, such as ``session_not_found``."""
        return str(self.details.get("error_code", self.type))


class BadRequestError(ApiError):
    """400: the request itself is wrong."""


class AuthenticationError(ApiError):
    """401: the key is missing, unknown or revoked."""


class PermissionDeniedError(ApiError):
    """403: the key's role does not allow this."""


class ProducerFencedError(PermissionDeniedError):
    """403: a newer epoch of the same producer has taken over."""


class SessionLeaseLostError(PermissionDeniedError):
    """403: another worker has the session now, or the lease was released. Stop, or wake it again."""


class NotFoundError(ApiError):
    """404: there is no such session, event or artifact."""


class SessionReplacedError(NotFoundError):
    """410, 412: the session of this handle is gone; ``incarnation`` is the one that has its id now, if any.

    Nothing was read from that one or written to it. A new handle, ``client.session(id)``, binds to it.
    """

    incarnation: str | None = None


class ConflictError(ApiError):
    """409: the session is closed, archived, or exists already and differs."""


class PreconditionFailedError(ApiError):
    """412: somebody else has appended since; ``next_offset`` is where the session ends now."""

    next_offset: str | None = None


class TooLargeError(ApiError):
    """413: the event or the request is too large."""


class RateLimitedError(ApiError):
    """429: too many requests, or a quota is used up; ``retry_after`` is in seconds."""

    retry_after: float | None = None


class ServerError(ApiError):
    """5xx: the server failed, or cannot answer now."""
