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
        self._run_connected(lambda: self._launch(order), runtime_env=self._runtime_env)

    def actor_state(self, name: str) -> ActorState:
        return ActorState(self._run_connected(lambda: _actor_state(name, self._namespace)))

    def kill(self, name: str) -> None:
        self._run_connected(lambda: _kill(name, self._namespace))

    def managers(self, *, platform_url: str) -> list[str]:
        """Return the managers that answer and report to the platform at `platform_url`.

        Other platforms may have managers in the same namespace.
        """
        found = self._run_connected(lambda: _managers(self._namespace))
        return [name for name, reports_to in found.items() if reports_to == platform_url]

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._run_connected(_nodes)
        return found

    def _launch(self, order: LaunchRequest) -> None:
        try:
            from rollouts.fleet.manager.actors import launch
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
        _await_first_answer(order.actor_name, self._namespace)

    def _run_connected(
        self, operation: Callable[[], Any], *, runtime_env: Mapping[str, Any] = _NONE
    ) -> Any:
        def connected() -> Any:
            with _connection(self.address, self._namespace, runtime_env):
                return operation()

        self.reach()
        return _within(CONNECTED_SECONDS, connected, self.address)


@contextmanager
def _connection(address: str, namespace: str, runtime_env: Mapping[str, Any]) -> Iterator[None]:
    """Connect as a driver of the cluster; all actors it creates inherit `runtime_env`.

    Its local folders are packed and stored in the cluster once, as long as an actor needs them,
    also for restarts of the manager on another node.
    """
    try:
        import ray

        ray.init(
            address=address,
            namespace=namespace,
            runtime_env=dict(runtime_env),
            log_to_driver=False,
            ignore_reinit_error=True,
            configure_logging=False,
        )
    except Exception as error:
        raise ClusterUnreachable(f"no Ray cluster at {address}: {error}") from error
    try:
        yield
    finally:
        disconnect_from_ray()


def disconnect_from_ray() -> None:
    """Disconnect this process from Ray with garbage collection disabled.

    Ray shuts its C++ part down before it marks itself as disconnected. If another thread's
    collection freed an object reference in between, Ray would call the missing part and end the
    process.
    """
    import ray

    with no_collection():
        ray.shutdown()


def _within(seconds: float, operation: Callable[[], Any], address: str) -> Any:
    """Run a callable in a thread and abandon it after `seconds`.

    A hanging call keeps the lock, so that no second one meets a half-connected Ray; Celery's time
    limit or the end of the call frees the process.
    """
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def go() -> None:
        try:
            outcome.append(operation())
        except BaseException as error:  # noqa: BLE001 re-raised in the caller's thread
            failure.append(error)
        finally:
            _visiting.release()

    if not _visiting.acquire(timeout=seconds):
        raise ClusterUnreachable(f"an earlier call to {address} has not returned")
    visitor = threading.Thread(target=go, name="ray-visit", daemon=True)
    visitor.start()
    visitor.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise ClusterUnreachable(f"Ray at {address} did not answer within {seconds:.0f} s")
    return outcome[0]


def _await_first_answer(name: str, namespace: str) -> None:
    """Wait briefly for the first answer: a manager that fails at once reports its error now."""
    import ray

    try:
        ray.get(ray.get_actor(name, namespace=namespace).ping.remote(), timeout=ANSWER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        logger.info("manager %s is still starting", name)
    except (ray.exceptions.RayError, ValueError) as error:
        cause = str(error).strip().splitlines()
        raise LaunchRefused(f"the manager could not start: {cause[-1] if cause else ''}") from error


def _actor_state(name: str, namespace: str) -> ActorState:
    import ray

    try:
        actor = ray.get_actor(name, namespace=namespace)
        ray.get(actor.ping.remote(), timeout=ANSWER_SECONDS)
    except ValueError:
        return ActorState.MISSING
    except (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError):
        return ActorState.SILENT
    except ray.exceptions.RayActorError:
        return ActorState.MISSING
    return ActorState.ALIVE


def _managers(namespace: str) -> dict[str, str]:
    """Return the platform URL of each manager that answers, by name."""
    import ray
    from ray.util import list_named_actors

    pending: dict[str, Any] = {}
    for entry in list_named_actors(all_namespaces=True):
        if entry["namespace"] == namespace and entry["name"].startswith(MANAGER_PREFIX):
            with suppress(ValueError):  # it has just ended
                actor = ray.get_actor(entry["name"], namespace=namespace)
                pending[entry["name"]] = actor.reports_to.remote()
    if pending:
        ray.wait(list(pending.values()), num_returns=len(pending), timeout=ANSWER_SECONDS)
    answers: dict[str, str] = {}
    for name, answer in pending.items():
        # Managers that do not answer are checked at the next call.
        with suppress(ray.exceptions.RayError):
            answers[name] = ray.get(answer, timeout=0.1)
    return answers


def _nodes() -> list[dict[str, Any]]:
    import ray
    from ray._private import state as ray_state  # no public API for free resources by node

    free = ray_state.available_resources_per_node()
    found = []
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
        found.append(row)
    return found


def _kill(name: str, namespace: str) -> None:
    import ray

    try:
        ray.kill(ray.get_actor(name, namespace=namespace), no_restart=True)
    except ValueError:
        logger.info("manager %s has already ended", name)
