"""Say from which addresses something may come. Plain rules, no sockets."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final

NETWORKS_AT_MOST: Final = 20


class InvalidNetwork(ValueError):
    """An entry is neither an address nor a network."""

    field = "networks"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def checked(entries: Iterable[str]) -> list[str]:
    """Return addresses and networks as they are written most shortly, each once.

    Raises:
        InvalidNetwork: If one is neither; the message names it.
    """
    found = []
    for entry in entries:
        try:
            found.append(str(ip_network(entry.strip())))
        except ValueError as error:
            raise InvalidNetwork(
                f"{entry.strip()[:60]!r} is no address and no network such as 10.0.0.0/8"
            ) from error
    return list(dict.fromkeys(found))


def is_within(address: str | None, networks: Iterable[str]) -> bool:
    """Return whether an address is in one of the networks; none at all never is."""
    try:
        given = ip_address(address or "")
    except ValueError:
        return False
    # A socket of both kinds writes the older addresses in the newer form.
    mapped = getattr(given, "ipv4_mapped", None)
    known = given if mapped is None else mapped
    return any(known in ip_network(network) for network in networks)
