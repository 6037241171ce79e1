"""Start, lookup and end of fleet managers on a Ray cluster.

Ray is imported inside the functions, because the web server imports this module without Ray. Each
call connects, asks and disconnects (0.02 to 0.3 s): Ray would end a process that stayed connected
one minute after the head's death.
"""

import gc
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from rollouts.control.rules import MANAGER_PREFIX, ActorState, LaunchRequest
from rollouts.fleet.process import child_environment

MAX_PAUSE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.005
logger = logging.getLogger(__name__)
REACH_SECONDS: Final = 1.0
"""Time limit for a connection to the cluster."""
CONNECTED_SECONDS: Final = 25.0
"""Time limit for one call to the cluster."""
ANSWER_SECONDS: Final = 5.0
"""Time limit for a manager's answer to a call."""
_NONE: Final[Mapping[str, Any]] = {}
# Resources of a node, reported as total and reserved amounts, by Ray's names.
_SHOWN: Final = {
    ("cpus", "cpus_used"): "CPU",
    ("gpus", "gpus_used"): "GPU",
    ("memory_bytes", "memory_used_bytes"): "memory",
    ("object_store_bytes", "object_store_used_bytes"): "object_store_memory",
}
_visiting = threading.Lock()


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend automatic garbage collection in all threads; not reentrant.

    A collection running in another thread is waited for, at most 5 s: objects that it frees may run
    code, so that this thread could continue before it has ended.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        deadline = time.monotonic() + MAX_PAUSE_SECONDS
        while not _collected_here() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        yield
    finally:
        if collects:
            gc.enable()


def _collected_here() -> bool:
    """Collect the youngest objects; return False if another thread's collection prevents it."""
    begun: list[str] = []

    def note(phase: str, _: dict[str, Any]) -> None:
        begun.append(phase)

    gc.callbacks.append(note)
    try:
        gc.collect(0)
    finally:
        gc.callbacks.remove(note)
    return bool(begun)


class ClusterUnreachable(Exception):
    """No Ray cluster responds at the address."""


class LaunchRefused(Exception):
    """The cluster responds but rejects the manager."""


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
    """The Ray cluster whose head is at `address`."""

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
        """Fail fast if the address refuses connections: Ray itself retries for many seconds."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
        except (OSError, ValueError) as error:
            where = self.address or "an address (RAY_ADDRESS is empty)"
            raise ClusterUnreachable(f"no Ray cluster at {where}: {error}") from error

    def launch(self, order: LaunchRequest) -> None:
        def launch_and_wait() -> None:
            import ray

            try:
                from rollouts.fleet.manager.actors import find, launch
                from rollouts.fleet.process.settings import FleetSettings

                settings = FleetSettings(
                    platform_url=order.platform_url,
                    token=order.token,
                    run=order.run,
                    run_config=order.config,
                    incarnation=order.incarnation,
                    run_key=order.run_key,
                    weights_directory=order.weights_directory,
                    closed_nodes=list(order.closed_nodes),
                )
                launch(
                    address=self.address,
                    namespace=self._namespace,
                    name=order.actor_name,
                    settings=settings,
                )
            except Exception as error:
                raise LaunchRefused(f"the cluster refused the manager: {error}") from error
            # Wait briefly: a manager that fails at once reports its error now.
            try:
                actor = find(namespace=self._namespace, name=order.actor_name)
                if actor is None:
                    raise LaunchRefused("the manager could not start: it has ended")
                ray.get(actor.ping.remote(), timeout=ANSWER_SECONDS)
            except ray.exceptions.GetTimeoutError:
                logger.info("manager %s is still starting", order.actor_name)
            except (ray.exceptions.RayError, ValueError) as error:
                lines = str(error).strip().splitlines()
                cause = lines[-1] if lines else ""
                raise LaunchRefused(f"the manager could not start: {cause}") from error

        self._run_connected(launch_and_wait, runtime_env=self._runtime_env)

    def actor_state(self, name: str) -> ActorState:
        def ping() -> ActorState:
            import ray

            from rollouts.fleet.manager.actors import find

            actor = find(namespace=self._namespace, name=name)
            if actor is None:
                return ActorState.MISSING
            try:
                ray.get(actor.ping.remote(), timeout=ANSWER_SECONDS)
            except (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError):
                return ActorState.SILENT
            except ray.exceptions.RayActorError:
                return ActorState.MISSING
            return ActorState.ALIVE

        return ActorState(self._run_connected(ping))

    def kill(self, name: str) -> None:
        def end() -> None:
            import ray

            from rollouts.fleet.manager.actors import find

            actor = find(namespace=self._namespace, name=name)
            if actor is None:
                logger.info("manager %s has already ended", name)
            else:
                ray.kill(actor, no_restart=True)

        self._run_connected(end)

    def managers(self, *, platform_url: str) -> list[str]:
        """Return the managers that answer and report to the platform at `platform_url`.

        Other platforms may have managers in the same namespace.
        """

        def ask_all() -> list[str]:
            import ray
            from ray.util import list_named_actors

            from rollouts.fleet.manager.actors import find

            pending: dict[str, Any] = {}
            for entry in list_named_actors(all_namespaces=True):
                if entry["namespace"] == self._namespace and entry["name"].startswith(
                    MANAGER_PREFIX
                ):
                    actor = find(namespace=self._namespace, name=entry["name"])
                    if actor is not None:
                        pending[entry["name"]] = actor.reports_to.remote()
            if pending:
                ray.wait(list(pending.values()), num_returns=len(pending), timeout=ANSWER_SECONDS)
            ours = []
            for name, answer in pending.items():
                # Managers that do not answer are checked at the next call.
                with suppress(ray.exceptions.RayError):
                    if ray.get(answer, timeout=0.1) == platform_url:
                        ours.append(name)
            return ours

        found: list[str] = self._run_connected(ask_all)
        return found

    def nodes(self) -> list[dict[str, Any]]:
        def read() -> list[dict[str, Any]]:
            import ray
            from ray._private import state as ray_state  # no public API for free resources by node

            free = ray_state.available_resources_per_node()
            rows = []
            for node in ray.nodes():
                total, left = node["Resources"], free.get(node["NodeID"], {})
                row: dict[str, Any] = {
                    "node": node["NodeID"],
                    "host": node.get("NodeManagerHostname") or node.get("NodeManagerAddress", ""),
                    "is_head": "node:__internal_head__" in total,
                    "alive": bool(node["Alive"]),
                }
                for (name, used), resource in _SHOWN.items():
                    row[name] = float(total.get(resource, 0.0))
                    reserved = row[name] - float(left.get(resource, 0.0))
                    row[used] = max(0.0, reserved) if row["alive"] else 0.0
                rows.append(row)
            return rows

        found: list[dict[str, Any]] = self._run_connected(read)
        return found

    def _run_connected(
        self, operation: Callable[[], Any], *, runtime_env: Mapping[str, Any] = _NONE
    ) -> Any:
        """Run a callable as a driver of the cluster, in a thread that is abandoned after 25 s.

        A hanging call keeps the lock, so that no second one meets a half-connected Ray; Celery's
        time limit or the end of the call frees the process.

        Args:
            operation: Called while connected.
            runtime_env: Environment of all actors that the operation creates. Its local folders
                are packed and stored in the cluster once, as long as an actor needs them, also for
                restarts of the manager on another node.
        """
        outcome: list[Any] = []
        failure: list[BaseException] = []

        def visit() -> None:
            try:
                try:
                    import ray

                    ray.init(
                        address=self.address,
                        namespace=self._namespace,
                        runtime_env=dict(runtime_env),
                        log_to_driver=False,
                        ignore_reinit_error=True,
                        configure_logging=False,
                    )
                except Exception as error:
                    raise ClusterUnreachable(
                        f"no Ray cluster at {self.address}: {error}"
                    ) from error
                try:
                    result = operation()
                finally:
                    disconnect_from_ray()
                outcome.append(result)
            except BaseException as error:  # noqa: BLE001 re-raised in the caller's thread
                failure.append(error)
            finally:
                _visiting.release()

        self.reach()
        if not _visiting.acquire(timeout=CONNECTED_SECONDS):
            raise ClusterUnreachable(f"an earlier call to {self.address} has not returned")
        visitor = threading.Thread(target=visit, name="ray-visit", daemon=True)
        visitor.start()
        visitor.join(CONNECTED_SECONDS)
        if failure:
            raise failure[0]
        if not outcome:
            raise ClusterUnreachable(
                f"Ray at {self.address} did not answer within {CONNECTED_SECONDS:.0f} s"
            )
        return outcome[0]


def disconnect_from_ray() -> None:
    """Disconnect this process from Ray with garbage collection disabled.

    Ray shuts its C++ part down before it marks itself as disconnected. If another thread's
    collection freed an object reference in between, Ray would call the missing part and end the
    process.
    """
    import ray

    with no_collection():
        ray.shutdown()
