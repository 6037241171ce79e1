"""Rules for network addresses, without sockets."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final

from web.rules.errors import Invalid

NETWORKS_AT_MOST: Final = 20


class InvalidNetwork(Invalid):
    """An entry is neither an address nor a network."""

    field = "networks"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def checked(entries: Iterable[str]) -> list[str]:
    """Return addresses and networks in their shortest notation, without duplicates.

    Raises:
        InvalidNetwork: If an entry is neither; the message names it.
    """
    found = []
    for entry in entries:
        try:
            found.append(str(ip_network(entry.strip())))
        except ValueError as error:
            raise InvalidNetwork(
                f"{entry.strip()[:60]!r} is neither an address nor a network such as 10.0.0.0/8"
            ) from error
    return list(dict.fromkeys(found))


def is_within(address: str | None, networks: Iterable[str]) -> bool:
    """Return whether an address is in one of the networks; False without networks."""
    try:
        given = ip_address(address or "")
    except ValueError:
        return False
    # A dual-stack socket reports IPv4 addresses in IPv6 notation.
    mapped = getattr(given, "ipv4_mapped", None)
    known = given if mapped is None else mapped
    return any(known in ip_network(network) for network in networks)
