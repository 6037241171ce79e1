"""Limits of password attempts: which counters an attempt counts in, and how far each goes.

A counter has a fixed window that begins with its first attempt. A refused attempt neither counts
nor extends a window, so every counter is empty again at most 60 s after it was first used.
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

WINDOW_SECONDS: Final = 60
ATTEMPTS_PER_NAME_AND_PLACE: Final = 5
ATTEMPTS_PER_NAME: Final = 20
ATTEMPTS_PER_ADDRESS: Final = 20
# A household or a virtual machine usually owns a whole /64.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCounter:
    """One counter of attempts and its limit."""

    key: str
    limit: int


def counters(*, name: str, address: str, browser: str = "") -> list[LoginCounter]:
    """Return the counters of an attempt.

    Args:
        name: User name as it was typed.
        address: IP address of the client.
        browser: Id of a browser that has signed in under this name before. Such a browser has a
            counter of its own and ignores the others: strangers cannot lock its owner out.
    """
    person = hashlib.sha256(unicodedata.normalize("NFKC", name).casefold().encode()).hexdigest()
    if browser:
        return [_counter("browser", person, browser, limit=ATTEMPTS_PER_NAME_AND_PLACE)]
    network = _network(address)
    return [
        _counter("name and address", person, network, limit=ATTEMPTS_PER_NAME_AND_PLACE),
        _counter("name", person, limit=ATTEMPTS_PER_NAME),
        _counter("address", network, limit=ATTEMPTS_PER_ADDRESS),
    ]


def _counter(*parts: str, limit: int) -> LoginCounter:
    # Hashed: a person may type a password into the field of the name.
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return LoginCounter(key=key, limit=limit)


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, _IPV6_PREFIX), strict=False))
    return str(parsed)
