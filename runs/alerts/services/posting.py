"""POST to external addresses with protection against server-side request forgery.

The host name is resolved here, all its addresses are checked, and the connection uses a checked
address, so a later DNS change has no effect. Redirects, proxies from the environment and cookies
are not followed.
"""

import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpcore

from runs.alerts.rules.webhooks import is_public

TIMEOUT_SECONDS: Final = 5.0
_USER_AGENT: Final = "Rolldeck"


class AddressNotPublic(Exception):
    """The host name resolves to a non-public address."""


class NotDelivered(Exception):
    """The message was not delivered, or the response timed out."""


class CheckedNetwork(httpcore.SyncBackend):
    """Network backend that connects to public addresses only, or to all."""

    def __init__(self, *, may_be_private: bool) -> None:
        self._may_be_private = may_be_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve the name, check all its addresses and connect to one of them."""
        *others, last = self._checked(host, port)
        for address in others:
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError:
                continue  # the host may listen on one of its addresses only
        return super().connect_tcp(last, port, timeout, local_address, socket_options)

    def _checked(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: invalid host name
            raise httpcore.ConnectError(f"{host} has no address: {error}") from error
        addresses = [*dict.fromkeys(str(place[0]) for *_, place in found)]
        hidden = [address for address in addresses if not is_public(address)]
        if hidden and not self._may_be_private:
            raise AddressNotPublic(
                f"{host} resolves to {hidden[0]}, which is not public "
                "(ROLLDECK_ALERT_PRIVATE_WEBHOOKS)"
            )
        return addresses


def post(
    url: str, body: bytes, *, headers: Mapping[str, str] | None = None, may_be_private: bool
) -> int:
    """Post JSON and return the response status; the body is not read.

    Raises:
        AddressNotPublic: If the host resolves to a forbidden address.
        NotDelivered: If there is no response within :data:`TIMEOUT_SECONDS`.
    """
    raw_headers: list[tuple[bytes | str, bytes | str]] = [
        ("Content-Type", "application/json"),
        ("User-Agent", _USER_AGENT),
        ("Connection", "close"),
        *(headers or {}).items(),
    ]
    waits = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT_SECONDS)
    network = CheckedNetwork(may_be_private=may_be_private)
    try:
        with (
            httpcore.ConnectionPool(network_backend=network, max_connections=1) as pool,
            pool.stream(
                "POST", url, headers=raw_headers, content=body, extensions={"timeout": waits}
            ) as answer,
        ):
            return int(answer.status)
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise NotDelivered(str(error) or type(error).__name__) from error
    except OSError as error:
        raise NotDelivered(str(error)) from error
