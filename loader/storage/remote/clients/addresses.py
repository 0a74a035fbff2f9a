"""Connect to hosts by their addresses, of which only some kinds may be allowed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal

from ..failures import Remedy, RequestFailure
from .limited_answer import RequestLimits

AddressKind = Literal["public", "private", "special"]
"""``private`` is also loopback; ``special`` is link-local, as of the credentials of cloud machines, multicast, reserved
or without a meaning, as ``0.0.0.0``."""

PUBLIC = frozenset[AddressKind]({"public"})
PRIVATE = frozenset[AddressKind]({"public", "private"})
"""Kinds that URLs in data may lead to, and those if the user allows private ones."""

_NAT64 = IPv6Network("64:ff9b::/96")
_THIS_NETWORK = ip_network("0.0.0.0/8")
_METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")))
"""Where cloud machines find their credentials and settings, besides link-local addresses."""


def kind_of_address(text: str) -> AddressKind:
    """Return the kind of an address; one of IPv4 in one of IPv6 counts as itself.

    >>> [kind_of_address(text) for text in ("1.1.1.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254")]
    ['public', 'private', 'private', 'private', 'special']
    """
    address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        inner = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
        address = address.ipv4_mapped or address.sixtofour or inner or address
    if address.is_loopback:
        return "private"
    if address.is_link_local or address.is_multicast or address.is_reserved or address.is_unspecified:
        return "special"
    if address in _THIS_NETWORK or address in _METADATA:
        return "special"
    is_site = isinstance(address, IPv6Address) and address.is_site_local
    return "public" if address.is_global and not is_site else "private"


def connect(
    host: str, port: int, allowed: Collection[AddressKind], limits: RequestLimits
) -> tuple[socket.socket, AddressKind]:
    """Connect to a host at an address of an allowed kind: to the very address that was checked.

    Raises:
        OSError: There is no connection.
        RequestFailure: All addresses are of other kinds, or the time is over.
    """
    found = [
        (kind_of_address(str(address[0])), family, address) for family, _, _, _, address in _resolve(host, port, limits)
    ]
    usable = [each for each in found if each[0] in allowed]
    if not usable:
        raise _refused(host, str(found[0][2][0]), found[0][0])
    fault: OSError | None = None
    for number, (kind, family, address) in enumerate(usable):
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            with limits.waiting() as left_s:
                connection.settimeout(left_s / (len(usable) - number))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            fault = fault or error
        else:
            return connection, kind
    raise fault or OSError("no address")


def check_proxied(host: str, allowed: Collection[AddressKind]) -> AddressKind:
    """Return the kind of a host that a proxy connects to: names are resolved by the proxy, which has to refuse some.

    Raises:
        RequestFailure: The host is an address of another kind, in any notation, or a name of this machine.
    """
    try:
        address = str(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)[0][4][0])
    except (OSError, ValueError):
        if not f".{host.rstrip('.').lower()}".endswith(".localhost"):
            return "public"
        address = "127.0.0.1"
    kind = kind_of_address(address)
    if kind not in allowed:
        raise _refused(host, address, kind)
    return kind


def _resolve(host: str, port: int, limits: RequestLimits) -> list[Any]:
    """Return the addresses of a host; the system's resolver knows no deadline, and is left behind at ours."""
    answer: list[Any] = []

    def resolve() -> None:
        try:
            answer.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:  # a name with a label that no name can have
            answer.append(error)

    thread = threading.Thread(target=resolve, daemon=True, name="resolve")
    with limits.waiting() as left_s:
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            resolve()
        else:
            thread.join(left_s)
        if not answer:
            raise TimeoutError
    if isinstance(answer[0], OSError):
        raise answer[0]
    if isinstance(answer[0], ValueError) or not answer[0]:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return list(answer[0])


def _refused(host: str, address: str, kind: AddressKind) -> RequestFailure:
    at = "" if host == address else f" is {address}, and"
    return RequestFailure(f"{host}{at} is a {kind} address", Remedy.GIVE_UP, kind="refused")
