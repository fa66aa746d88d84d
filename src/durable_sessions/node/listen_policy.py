"""Which addresses a server may listen on: without keys, loopback only."""

import errno
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from durable_sessions.errors import SettingsError

_BOOTSTRAP_CHARACTERS_MIN = 16
_PORT_MAX = 65_535
_HOW = (
    "Start it on 127.0.0.1 and create a key with durable-sessions keys create --role admin --principal NAME, "
    "or give it one in DURABLE_SESSIONS_API_KEY (openssl rand -hex 32 makes one)."
)


def require_guarded(host: str, *, keys: bool, bootstrap: str) -> None:
    """Refuse an address that other machines can reach, if no key is required or it is too easy to guess."""
    if is_loopback(host):
        return
    if not keys:
        raise SettingsError(
            problem=f"Without keys the server listens on loopback only, and {host or 'any address'} is not. "
            + _HOW
        )
    if bootstrap and len(bootstrap) < _BOOTSTRAP_CHARACTERS_MIN:
        raise SettingsError(
            problem=f"The key in DURABLE_SESSIONS_API_KEY has {len(bootstrap)} characters, too few for "
            f"{host}, which others can reach. Use {_BOOTSTRAP_CHARACTERS_MIN} or more: openssl rand -hex 32."
        )


def require_usable(host: str, port: int) -> None:
    """Refuse an address that this machine does not have, or a port that is in use."""
    try:
        for family, kind, protocol, _, address in _addresses(host, port):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        raise SettingsError(problem=cannot_listen(host, port, error)) from error


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Keep a port for the processes that share it, and give its number, also for port 0.

    As long as it is bound here no other program gets it, whichever of these processes end meanwhile.
    """
    with ExitStack() as bound:
        try:
            for family, kind, protocol, _, address in _addresses(host, port):
                keeping = bound.enter_context(socket.socket(family, kind, protocol))
                keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    keeping.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                keeping.bind((address[0], port, *address[2:]))
                port = keeping.getsockname()[1]
        except OSError as error:
            raise SettingsError(problem=cannot_listen(host, port, error)) from error
        yield port


def _addresses(host: str, port: int) -> list[Any]:
    flags = socket.AI_PASSIVE if not host else 0
    return socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)


def cannot_listen(host: str, port: int, error: OSError) -> str:
    """Return a message that says why a server cannot listen, and what to do."""
    advice = ""
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < _PORT_MAX else port - 1
        advice = (
            " Another server may be running there; stop it, or choose another port with --port, or with "
            f"DURABLE_SESSIONS_PORT={other} before the command."
        )
    return f"Cannot listen on {host or 'any address'} port {port}: {error.strerror or error}.{advice}"


def is_loopback(host: str) -> bool:
    """Say whether an address, or every address of a name, can be reached from this machine only."""
    if not host:
        return False  # empty means all addresses
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)
