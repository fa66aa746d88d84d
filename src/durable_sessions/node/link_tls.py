"""TLS of the links between nodes: each side shows a certificate, and checks that of the other one."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.errors import SettingsError
from durable_sessions.settings import Settings

_NAMES = ("link_ca", "link_certificate", "link_key")
_FLIGHTS_MAX = 10
"""More often than this no side of a handshake has something to say."""


@dataclass(frozen=True, slots=True)
class LinkTls:
    """How this node lets others connect, and how it connects to them; both sides check certificates."""

    listening: ssl.SSLContext
    asking: ssl.SSLContext

    @classmethod
    def open(cls, settings: Settings) -> "LinkTls | None":
        """Return how links are encrypted, None if they are not; SettingsError if the files are of no use."""
        files = {name: getattr(settings, name) for name in _NAMES}
        if not any(files.values()):
            return None
        missing = [name for name, file in files.items() if not file]
        if missing:
            raise SettingsError(
                problem=f"TLS between nodes needs {', '.join(_NAMES)}: {' and '.join(missing)} is missing."
            )
        for name, file in files.items():
            _require_readable(name, Path(file))
        try:
            return cls(
                _context(ssl.PROTOCOL_TLS_SERVER, settings), _context(ssl.PROTOCOL_TLS_CLIENT, settings)
            )
        except ssl.SSLError as error:
            problem = f"link_ca, link_certificate or link_key is of no use for TLS: {error}."
            raise SettingsError(problem=problem) from error

    def require_accepted(self, host: str) -> None:
        """Refuse a certificate that other nodes would refuse, by shaking hands with itself at ``host``."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.asking.wrap_bio(to_client, to_server, server_hostname=host)
        server = self.listening.wrap_bio(to_server, to_client, server_side=True)
        waiting = [client, server]
        try:
            for _ in range(_FLIGHTS_MAX):
                waiting = [side for side in waiting if not _has_shaken_hands(side)]
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or str(error)
            problem = (
                f"The certificate in link_certificate is not one that other nodes accept: {reason}. It must"
                f" be signed by link_ca, for servers and clients, and name {host}, the host of link."
            )
            raise SettingsError(problem=problem) from error
        assert not waiting, "a handshake in memory ends"


def _context(protocol: "ssl._SSLMethod", settings: Settings) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(settings.link_ca)
    context.load_cert_chain(settings.link_certificate, settings.link_key)
    return context


def _has_shaken_hands(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _require_readable(name: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        problem = f"{name} is {file}, which cannot be read: {error.strerror or error}."
        raise SettingsError(problem=problem) from error
