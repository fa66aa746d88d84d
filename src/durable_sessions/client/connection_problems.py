"""Why no answer came, in words for whoever waits for it instead of the operating system's."""

import errno
import socket
import ssl
from collections.abc import Iterator

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_CLOSED = "the connection was closed before the answer"
_BROKEN = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_BY_NUMBER = {
    errno.ENETUNREACH: "there is no network that leads there",
    errno.EHOSTUNREACH: "there is no way to that machine",
    errno.ETIMEDOUT: "that machine does not answer",
    errno.EADDRNOTAVAIL: "this machine has no port left to connect from",
    errno.EMFILE: "this process has too many files and connections open",
}


def reason_of(error: BaseException, url: str) -> str:
    """Return why a request to a server got no answer, without a full stop."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted ({cause.verify_message}); set SSL_CERT_FILE to the "
                "certificate of who issued it"
            )
        if isinstance(cause, ssl.SSLError):
            if any(word in (cause.reason or str(cause)) for word in _NO_TLS):
                return f"it does not speak TLS; use {_other_scheme(url)}"
            return "no TLS connection could be agreed on"
        if isinstance(cause, socket.gaierror):
            return "the name of that machine is not known"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there, the connection was refused"
        if isinstance(cause, _BROKEN):
            return _with_hint(_CLOSED, url)
        if isinstance(cause, TimeoutError):
            return "no answer came in time"
        if isinstance(cause, OSError) and cause.errno in _BY_NUMBER:
            return _BY_NUMBER[cause.errno]
    said = str(error).rstrip(".")
    if "Timeout" in type(error).__name__:
        return "no answer came in time"
    if "disconnected without sending" in said:
        return _with_hint(_CLOSED, url)
    if "illegal" in said:  # the first line of the answer
        return _with_hint("what answered there does not speak HTTP", url)
    return said or "the connection broke"


def is_final(error: BaseException) -> bool:
    """Say whether another attempt would end in the same way: what answers speaks another protocol."""
    return any(
        isinstance(cause, ssl.SSLCertVerificationError)
        or (isinstance(cause, ssl.SSLError) and any(word in (cause.reason or "") for word in _NO_TLS))
        for cause in _causes(error)
    )


def _with_hint(said: str, url: str) -> str:
    if url.startswith("http://"):
        return f"{said}; if TLS is expected there, use {_other_scheme(url)}"
    return said


def _other_scheme(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
