"""Messages between the platform and the gateway, as JSON."""

from typing import Any, Final, Literal

from msgspec import Struct

from rollouts.fleet.probe.messages import ProbeRequest
from rollouts.fleet.process.settings import FleetSettings

CALL_SECONDS: Final = 25.0
"""Time limit of a call to the cluster, including the wait for a free driver."""
MOST_PROBE_SECONDS: Final = 60.0
"""Time limit of a probe, whatever its request names."""


class Call(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call to the cluster."""

    operation: Literal["launch", "state", "kill", "managers", "nodes", "rooms"]
    namespace: str = ""
    """Ray namespace of the managers' names."""
    name: str = ""
    """Name of a manager; for `managers`, the beginning of the names."""
    settings: FleetSettings | None = None
    """For `launch`: the settings of the manager."""
    runtime_env: dict[str, Any] = {}
    """For `launch`: Ray's runtime environment of all processes of the fleet."""
    platform_url: str = ""
    """For `managers`: the platform to which they report."""


class Answer(Struct, frozen=True, kw_only=True):
    """The result of a call, or the reason of its failure."""

    value: Any = None
    failure: Literal["", "unreachable", "refused"] = ""
    """`unreachable`: no cluster responds. `refused`: it responds but rejects the manager."""
    reason: str = ""


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A probe with its time limit."""

    request: ProbeRequest
    seconds: float


def gateway_of(address: str) -> tuple[str, int]:
    """Return host and port of the gateway: the host of Ray's head, and the port after the head's.

    Raises:
        ValueError: If the address is not ``host:port``.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65535:
        raise ValueError("it must be host:port")
    return host, int(port) + 1
