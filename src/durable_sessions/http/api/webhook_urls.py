"""Which webhook URLs are accepted, and which addresses may be connected to.

A webhook makes this server send requests on behalf of others, so it must not reach what only
this server can reach (SSRF). The URL is parsed once, here, and the sender uses its parts: there
is no second parser that could see another host.
"""

import ipaddress
import re
from dataclasses import dataclass
from enum import IntEnum

from durable_sessions.errors import WebhookUrlRejectedError

_URL = re.compile(r"(?i:(https?))://([^/?#]*)([^#]*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Names that mean this machine or its private network, whatever they resolve to.
_PRIVATE_NAMES = ("localhost", "local", "internal", "home.arpa")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# Excluding the metadata services of clouds, which hand out secrets: link-local ones, and one in fc00::/7.
_PRIVATE_4 = [
    ipaddress.IPv4Network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8")
]
_PRIVATE_6 = ipaddress.IPv6Network("fc00::/7")
_METADATA_6 = ipaddress.IPv6Network("fd00:ec2::/32")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Reach(IntEnum):
    """Which internal addresses webhooks may reach: none, this machine (for development), private networks."""

    PUBLIC = 0
    LOOPBACK = 1
    PRIVATE = 2


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The target of a webhook: a public address by https, or an internal one as far as ``reach`` allows."""

    scheme: str
    host: str
    port: int
    target: str
    reach: Reach

    def allows(self, address: str) -> bool:
        """Say whether the host may be reached at an address that its name resolved to."""
        found = ipaddress.ip_address(address.partition("%")[0])  # without the scope of an IPv6 address
        if self.scheme == "http":
            return _is_within(found, self.reach)
        return _is_public(found) or (self.reach is Reach.PRIVATE and _is_within(found, self.reach))


def parse(url: str, reach: Reach) -> WebhookTarget:
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
    if address is not None:
        _check_address(scheme, address, reach)
    elif scheme == "http" and reach is not Reach.PRIVATE:
        if host != "localhost" or reach is Reach.PUBLIC:
            raise _rejected(_HTTP[reach])
    else:
        _check_name(host, reach)
    target = target if target.startswith("/") else "/" + target
    return WebhookTarget(scheme, host.strip("[]"), port, target, reach)


_SETTING = "the setting webhook_private_addresses allows private ones"
_HTTP = {
    Reach.PUBLIC: f"use https and a public address; {_SETTING}",
    Reach.LOOPBACK: "http is accepted only for localhost and 127.0.0.0/8; use https",
    Reach.PRIVATE: "http is accepted only for private addresses; use https",
}


def _check_address(scheme: str, address: Address, reach: Reach) -> None:
    if scheme == "http":
        # For development only the usual spellings of this machine are needed.
        if not _is_within(address, reach) or (reach is Reach.LOOPBACK and address.version == 6):
            raise _rejected(_HTTP[reach])
    elif not _is_public(address) and not (reach is Reach.PRIVATE and _is_within(address, reach)):
        raise _rejected(f"{address} is not a public address; {_SETTING}")


def _literal(host: str) -> Address | None:
    """Return the address that a host spells, None for a name.

    Resolvers also accept 127.1, 0x7f000001 and 017700000001. Whatever ends in a number is taken as an
    address, and only the usual spelling is accepted.
    """
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1])
        if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            return ipaddress.IPv4Address(host)
    except ValueError:
        raise _rejected(f"{host} is not the usual spelling of an address") from None
    return None


def _check_name(host: str, reach: Reach) -> None:
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _rejected(f"{host!r} is not a host name (write it without a trailing dot)")
    if reach is Reach.PRIVATE:
        return
    if any(host == name or host.endswith("." + name) for name in _PRIVATE_NAMES):
        raise _rejected(f"{host} is a private name; {_SETTING}")


def _is_within(address: Address, reach: Reach) -> bool:
    """Say whether an address is internal and allowed by ``reach``."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if reach is not Reach.PRIVATE:
        return reach is Reach.LOOPBACK and address.is_loopback
    if isinstance(address, ipaddress.IPv4Address):
        return any(address in network for network in _PRIVATE_4)
    return address.is_loopback or (address in _PRIVATE_6 and address not in _METADATA_6)


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
