"""Start, lookup and end of fleet managers on a Ray cluster, and probes of environments.

The platform's processes call the gateway of the cluster, :mod:`rollouts.fleet.gateway`, over HTTP.
They are no nodes of the cluster, and import neither Ray nor an environment.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Protocol

import httpx
import msgspec
from django.conf import settings

from rollouts.control.rules import MANAGER_PREFIX, ActorState, LaunchRequest
from rollouts.fleet.gateway.messages import CALL_SECONDS, Answer, Call, Probe, gateway_of
from rollouts.fleet.manager.placement import NodeRoom
from rollouts.fleet.probe.messages import Outcome, ProbeRequest
from rollouts.fleet.process import child_environment
from rollouts.fleet.process.settings import FleetSettings
from web.rules.errors import TooManyRequests, Unavailable

REACH_SECONDS: Final = 2.0
"""Time limit for a connection to the gateway."""
MARGIN_SECONDS: Final = 4.0
"""Time that an answer may take beyond the gateway's own time limit."""


class ClusterUnreachable(Unavailable):
    """No Ray cluster responds at the address."""

    code = "cluster_unreachable"
    title = "Ray cluster unreachable"
    retry_after_seconds = 10


class LaunchRefused(Exception):
    """The cluster responds but rejects the manager."""


class TooManyProbes(TooManyRequests):
    """The limit on concurrent probes is reached."""

    title = "Too many checks are under way"
    retry_after_seconds = 5


class Cluster(Protocol):
    """Cluster on which managers run.

    Every method raises :class:`ClusterUnreachable` if the cluster does not respond, and returns
    within 30 seconds in any case.
    """

    def reach(self) -> None:
        """Return at once if the cluster's address accepts connections."""

    def launch(self, order: LaunchRequest) -> None:
        """Start a manager; an existing one of this name stays unchanged.

        Raises:
            LaunchRefused: If the cluster responds but rejects it.
        """

    def actor_state(self, name: str) -> ActorState:
        """Return the state of the manager's actor."""

    def kill(self, name: str) -> None:
        """End a manager at once; does nothing if it has ended."""

    def managers(self, *, platform_url: str) -> list[str]:
        """Return the managers that answer and report to the platform at `platform_url`."""

    def nodes(self) -> list[dict[str, Any]]:
        """Return total and reserved resources of each node.

        Each has `node`, `host`, `is_head`, `alive`, and as totals and reserved parts `cpus`,
        `cpus_used`, `gpus`, `gpus_used`, `memory_bytes`, `memory_used_bytes`, `object_store_bytes`,
        `object_store_used_bytes`.
        """


class RayCluster:
    """The Ray cluster whose head is at `address`; its gateway is on the port after the head's."""

    def __init__(
        self,
        address: str,
        *,
        namespace: str = "rolldeck",
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the settings without connecting.

        Args:
            address: Address of the head, ``host:port``.
            namespace: Ray namespace of the managers' names.
            runtime_env: The administrator's Ray runtime environment for every process of a fleet;
                launch orders never add to it.
        """
        self.address = address
        self._namespace = namespace
        self._runtime_env = child_environment.with_names(runtime_env or {}, os.environ)

    def reach(self) -> None:
        """Fail fast if the gateway or the head refuses connections."""
        self._request("GET", "/healthz", seconds=REACH_SECONDS)

    def launch(self, order: LaunchRequest) -> None:
        self._call(
            Call(
                operation="launch",
                namespace=self._namespace,
                name=order.actor_name,
                runtime_env=self._runtime_env,
                settings=FleetSettings(
                    platform_url=order.platform_url,
                    token=order.token,
                    run=order.run,
                    run_config=order.config,
                    incarnation=order.incarnation,
                    run_key=order.run_key,
                    weights_directory=order.weights_directory,
                    closed_nodes=list(order.closed_nodes),
                ),
            )
        )

    def actor_state(self, name: str) -> ActorState:
        return ActorState(self._call(Call(operation="state", namespace=self._namespace, name=name)))

    def kill(self, name: str) -> None:
        self._call(Call(operation="kill", namespace=self._namespace, name=name))

    def managers(self, *, platform_url: str) -> list[str]:
        """Return the managers that answer and report to the platform at `platform_url`.

        Other platforms may have managers in the same namespace.
        """
        call = Call(
            operation="managers",
            namespace=self._namespace,
            name=MANAGER_PREFIX,
            platform_url=platform_url,
        )
        return msgspec.convert(self._call(call), list[str])

    def nodes(self) -> list[dict[str, Any]]:
        return msgspec.convert(self._call(Call(operation="nodes")), list[dict[str, Any]])

    def rooms(self) -> list[NodeRoom]:
        """Return the total and free resources of each living node.

        Raises:
            ClusterUnreachable: If the cluster does not respond.
        """
        return msgspec.convert(self._call(Call(operation="rooms")), list[NodeRoom])

    def probe(self, request: ProbeRequest, *, seconds: float) -> Outcome:
        """Probe an object on the machine of the cluster's head; a failure is part of the outcome.

        Raises:
            ClusterUnreachable: If the gateway does not respond.
            TooManyProbes: If too many probes are in progress.
        """
        body = msgspec.json.encode(Probe(request=request, seconds=seconds))
        answer = self._request("POST", "/probes", body, seconds=seconds + MARGIN_SECONDS)
        return msgspec.json.decode(answer, type=Outcome)

    def _call(self, call: Call) -> Any:
        body = msgspec.json.encode(call)
        received = self._request("POST", "/calls", body, seconds=CALL_SECONDS + MARGIN_SECONDS)
        answer = msgspec.json.decode(received, type=Answer)
        if answer.failure == "refused":
            raise LaunchRefused(answer.reason)
        if answer.failure:
            raise ClusterUnreachable(answer.reason)
        return answer.value

    def _request(self, method: str, path: str, body: bytes = b"", *, seconds: float) -> bytes:
        if not self.address:
            raise ClusterUnreachable("no Ray cluster: RAY_ADDRESS is empty")
        try:
            host, port = gateway_of(self.address)
            response = httpx.request(
                method,
                f"http://{host}:{port}{path}",
                content=body,
                headers={"Authorization": f"Bearer {settings.RAY_AUTH_TOKEN}"},
                timeout=httpx.Timeout(seconds, connect=REACH_SECONDS),
                trust_env=False,
            )
        except ValueError as error:
            raise ClusterUnreachable(f"no Ray cluster at {self.address!r}: {error}") from error
        except httpx.HTTPError as error:
            raise ClusterUnreachable(
                f"no Ray cluster at {self.address}: its gateway on port {port} did not answer: "
                f"{error or type(error).__name__}"
            ) from error
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise TooManyProbes(response.text)
        if not response.is_success:
            raise ClusterUnreachable(f"no Ray cluster at {self.address}: {response.text}")
        return response.content


def configured_cluster() -> RayCluster:
    """Return the cluster of the settings."""
    return RayCluster(
        settings.RAY_ADDRESS, namespace=settings.RAY_NAMESPACE, runtime_env=settings.RAY_RUNTIME_ENV
    )
