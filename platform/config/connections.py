"""Limit on open connections, so that descriptors remain for the database and for files.

Connections that have not sent a request yet make way for new ones: clients that only connect
cannot keep others out.
"""

import logging
import resource
import time
from collections import Counter
from typing import Final, Protocol

logger = logging.getLogger(__name__)

MOST_OPEN_FILES: Final = 65_536
"""Limit that is requested. Some programs walk through all numbers up to their limit."""
SHARE: Final = 0.8
"""Share of the descriptors for connections."""
SHARE_OF_ADDRESS: Final = 0.5
"""Share of the connections for one address, which may be that of a proxy."""
REPORT_SECONDS: Final = 60.0


class Connection(Protocol):
    """A connection that the server can close."""

    def close_silent(self) -> None:
        """Close the connection, which has sent no request."""


def raise_open_files() -> int:
    """Raise this process' limit on open files towards the hard limit; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def most_connections() -> int:
    """Return the limit on connections of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return int(SHARE * (MOST_OPEN_FILES if soft == resource.RLIM_INFINITY else soft))


class Connections:
    """Open HTTP connections of one process; used on its event loop only."""

    def __init__(self, most: int) -> None:
        """Permit `most` connections, and half of them to each address."""
        self.most = most
        self._most_of_address = max(1, int(most * SHARE_OF_ADDRESS))
        self._by_address: Counter[str] = Counter()
        # Dictionaries, because they keep the order: the oldest connection is the first.
        self._silent: dict[Connection, str] = {}
        self._silent_of_address: dict[str, dict[Connection, None]] = {}
        self._report_at = 0.0

    def admit(self, connection: Connection, address: str, *, open_count: int) -> bool:
        """Count a new connection; return False if it must be closed.

        Args:
            connection: The connection.
            address: IP address of the client.
            open_count: Number of open connections with this one, also of WebSockets.
        """
        oldest: Connection | None = None
        is_full = False
        if self._by_address[address] >= self._most_of_address:
            is_full, oldest = True, next(iter(self._silent_of_address.get(address, ())), None)
        elif open_count > self.most:
            is_full, oldest = True, next(iter(self._silent), None)
        if is_full and (now := time.monotonic()) >= self._report_at:
            self._report_at = now + REPORT_SECONDS
            logger.warning(
                "connections_limited limit=%d limit_of_address=%d newest_address=%s",
                self.most,
                self._most_of_address,
                address,
            )
        if is_full and oldest is None:
            return False
        self._by_address[address] += 1
        self._silent[connection] = address
        self._silent_of_address.setdefault(address, {})[connection] = None
        if oldest is not None:
            self.has_sent_request(oldest)
            oldest.close_silent()
        return True

    def has_sent_request(self, connection: Connection) -> None:
        """Keep a connection open from now on."""
        address = self._silent.pop(connection, None)
        if address is not None:
            of_address = self._silent_of_address[address]
            del of_address[connection]
            if not of_address:
                del self._silent_of_address[address]

    def release(self, connection: Connection, address: str) -> None:
        """Uncount a connection that was admitted."""
        self.has_sent_request(connection)
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]
