"""Where a server may listen: without keys on loopback only."""

import ipaddress
import socket

from durable_sessions.errors import SettingsError

_BOOTSTRAP_CHARACTERS_MIN = 16
_HOW = (
    "Start it on 127.0.0.1 and create a key with durable-sessions keys create --role admin --principal NAME, "
    "or give it one in DURABLE_SESSIONS_API_KEY (openssl rand -hex 32 makes one)."
)


def require_guarded(host: str, *, keys: bool, bootstrap: str) -> None:
    """Refuse an address that others can reach if no key is needed there, or one that can be guessed."""
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


def is_loopback(host: str) -> bool:
    """Say whether an address, or every address of a name, is only reached from this machine."""
    if not host:
        return False  # every address
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)
