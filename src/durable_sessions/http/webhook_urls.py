"""Which webhook URLs are accepted, and which addresses are really connected to.

A webhook makes this server send requests on behalf of strangers, so it must not reach what
only this server can reach. The URL is taken apart once, here, and the parts are what the
sender uses: there is no second parser that could see another host.
"""

import ipaddress
import re
from dataclasses import dataclass

from durable_sessions.errors import WebhookUrlRejectedError

_URL = re.compile(r"(?i:(https?))://([^/?#]*)([^#]*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Names that mean this machine or its private network, whatever the resolver says.
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Where a webhook goes; ``local`` is the exception for development, loopback only."""

    scheme: str
    host: str
    port: int
    target: str
    local: bool

    def allows(self, address: str) -> bool:
        """Say whether the host may be reached at an address that its name resolved to."""
        found = ipaddress.ip_address(address)
        return found.is_loopback if self.local else _is_public(found)


def parse(url: str) -> WebhookTarget:
    """Return the parts of an acceptable webhook URL, or say why it is refused."""
    match = _URL.fullmatch(url)
    if match is None or not url.isascii() or not url.isprintable() or " " in url:
        raise _rejected("send an https URL in ASCII without a fragment, such as https://example.com/hook")
    scheme, authority, target = match[1].lower(), match[2], match[3]
    if "@" in authority:
        raise _rejected("it holds a user name; authenticate by the Webhook-Signature instead")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _rejected(f"{authority!r} is not a host name or address with an optional port")
    port = int(parts[2]) if parts[2] else (443 if scheme == "https" else 80)
    if not 0 < port < 65536:
        raise _rejected(f"{port} is not a port")
    host = parts[1].lower()
    address = _literal(host)
    if scheme == "http":
        if host != "localhost" and not (address is not None and address.version == 4 and address.is_loopback):
            raise _rejected("http is accepted only for localhost and 127.0.0.0/8; use https")
    elif address is None:
        _check_name(host)
    elif not _is_public(address):
        raise _rejected(f"{address} is not a public address")
    target = target if target.startswith("/") else "/" + target
    return WebhookTarget(scheme, host.strip("[]"), port, target, local=scheme == "http")


def _literal(host: str) -> Address | None:
    """Return the address that a host spells, None for a name.

    Resolvers also take 127.1, 0x7f000001 and 017700000001; whatever ends in a number is an
    address, and only the usual spelling of one is accepted.
    """
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1])
        if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            return ipaddress.IPv4Address(host)
    except ValueError:
        raise _rejected(f"{host} is not the usual spelling of an address") from None
    return None


def _check_name(host: str) -> None:
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _rejected(f"{host!r} is not a host name (write it without a trailing dot)")
    if any(host == name or host.endswith("." + name) for name in _PRIVATE_NAMES):
        raise _rejected(f"{host} is a private name; for development use http://localhost")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    if address in _NAT64:
        return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    tunnelled = address.sixtofour is not None or address.teredo is not None
    return address in _GLOBAL_UNICAST and address.is_global and not tunnelled


def _rejected(problem: str) -> WebhookUrlRejectedError:
    return WebhookUrlRejectedError(problem=problem)
