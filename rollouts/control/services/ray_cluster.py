"""Start, watch and end fleet managers on a Ray cluster.

Ray is imported inside the functions: the web side imports this module and has no Ray. Each
visit connects, asks and disconnects again (0.02 to 0.3 s): a process that stayed connected
would be ended by Ray a minute after its head died.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from rollouts.control.rules.launch import MANAGER_PREFIX, LaunchOrder
from rollouts.control.rules.reconcile import ActorState
from rollouts.control.services.gc_pause import no_collection
from rollouts.fleet.worker import child_environment

logger = logging.getLogger(__name__)

REACH_SECONDS: Final = 1.0
"""How long a cluster may take to accept a connection at all."""
VISIT_SECONDS: Final = 25.0
"""How long one visit to the cluster may take."""
ANSWER_SECONDS: Final = 5.0
"""How long a manager may take to answer a call."""


_NONE: Final[Mapping[str, Any]] = {}
# What is told of a node as a total and as what is reserved, and Ray's word for it.
_SHOWN: Final = {
    ("cpus", "cpus_used"): "CPU",
    ("gpus", "gpus_used"): "GPU",
    ("memory_bytes", "memory_used_bytes"): "memory",
    ("object_store_bytes", "object_store_used_bytes"): "object_store_memory",
}


class ClusterUnreachable(Exception):
    """No Ray cluster answers at the address."""


class LaunchRefused(Exception):
    """The cluster answers and does not take the manager."""


class Cluster(Protocol):
    """Where managers run.

    Every method raises :class:`ClusterUnreachable` when the cluster does not answer, and
    returns within half a minute whatever happens.
    """

    def reach(self) -> None:
        """Return at once if something listens where the cluster should be."""

    def launch(self, order: LaunchOrder) -> None:
        """Start a manager; one that has this name already is left as it is.

        Raises:
            LaunchRefused: If the cluster answers and does not take it.
        """

    def actor_state(self, name: str) -> ActorState:
        """Return whether the manager exists and answers."""

    def kill(self, name: str) -> None:
        """End a manager at once; one that is not there is ended already."""

    def managers(self, *, platform_url: str) -> list[str]:
        """Return the managers that answer and report to the platform at `platform_url`."""

    def nodes(self) -> list[dict[str, Any]]:
        """Return what each node has, and what actors have reserved of it.

        Each has `node`, `host`, `is_head`, `alive`, and as totals and reserved parts `cpus`,
        `cpus_used`, `gpus`, `gpus_used`, `memory_bytes`, `memory_used_bytes`,
        `object_store_bytes`, `object_store_used_bytes`.
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
        """Connect to nothing yet.

        Args:
            address: Of the head, ``host:port``.
            namespace: In which managers have their names.
            runtime_env: What Ray prepares for every process of a fleet. The administrator's;
                nothing of an order ever gets into it.
        """
        self.address = address
        self._namespace = namespace
        self._runtime_env = child_environment.with_names(runtime_env or {}, os.environ)

    def reach(self) -> None:
        """Fail fast where nobody listens: Ray itself would try for many seconds."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
        except (OSError, ValueError) as error:
            where = self.address or "an address (RAY_ADDRESS is empty)"
            raise ClusterUnreachable(f"no Ray cluster at {where}: {error}") from error

    def launch(self, order: LaunchOrder) -> None:
        """Start a detached, named manager."""
        self._visit(lambda: self._launch(order), runtime_env=self._runtime_env)

    def actor_state(self, name: str) -> ActorState:
        """Return whether the manager exists and answers."""
        return ActorState(self._visit(lambda: _actor_state(name, self._namespace)))

    def kill(self, name: str) -> None:
        """End a manager at once."""
        self._visit(lambda: _kill(name, self._namespace))

    def managers(self, *, platform_url: str) -> list[str]:
        """Return the managers that answer and report to the platform at `platform_url`.

        Others may have managers in the namespace too: theirs report elsewhere.
        """
        found = self._visit(lambda: _managers(self._namespace))
        return [name for name, reports_to in found.items() if reports_to == platform_url]

    def nodes(self) -> list[dict[str, Any]]:
        """Return what each node has, and what actors have reserved of it."""
        found: list[dict[str, Any]] = self._visit(_nodes)
        return found

    def _launch(self, order: LaunchOrder) -> None:
        try:
            from rollouts.fleet.manager.launch import launch
            from rollouts.fleet.worker.settings import FleetSettings

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
        _see_it_start(order.actor_name, self._namespace)

    def _visit(self, errand: Callable[[], Any], *, runtime_env: Mapping[str, Any] = _NONE) -> Any:
        self.reach()
        return _within(VISIT_SECONDS, lambda: self._connected(errand, runtime_env), self.address)

    def _connected(self, errand: Callable[[], Any], runtime_env: Mapping[str, Any]) -> Any:
        with _connection(self.address, self._namespace, runtime_env):
            return errand()


@contextmanager
def _connection(address: str, namespace: str, runtime_env: Mapping[str, Any]) -> Iterator[None]:
    """Be a driver of the cluster; all actors that it makes inherit `runtime_env`.

    Local folders of it are packed and stored in the cluster once, and stay there as long as
    an actor needs them: also when another node restarts the manager.
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
        leave_ray()


def leave_ray() -> None:
    """Disconnect this process from Ray, with no garbage collected meanwhile.

    Ray takes its C++ part down before it notes that it is gone. If another thread's collection
    frees an object reference between the two, Ray asks the missing part and ends the process.
    """
    import ray

    with no_collection():
        ray.shutdown()


_visiting = threading.Lock()


def _within(seconds: float, errand: Callable[[], Any], address: str) -> Any:
    """Run `errand` in a thread and give it up after `seconds`.

    A visit that hangs keeps the lock, so that no second one meets Ray half connected; Celery's
    time limit or the end of the visit frees the process.
    """
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def go() -> None:
        try:
            outcome.append(errand())
        except BaseException as error:  # noqa: BLE001 carried over to the caller's thread
            failure.append(error)
        finally:
            _visiting.release()

    if not _visiting.acquire(timeout=seconds):
        raise ClusterUnreachable(f"an earlier visit to {address} still hangs")
    visitor = threading.Thread(target=go, name="ray-visit", daemon=True)
    visitor.start()
    visitor.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise ClusterUnreachable(f"Ray at {address} did not answer within {seconds:.0f} s")
    return outcome[0]


def _see_it_start(name: str, namespace: str) -> None:
    """Wait a moment for the first answer: a manager that cannot even begin says why now."""
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
    """Return where each manager that answers reports to, by its name."""
    import ray
    from ray.util import list_named_actors

    asked: dict[str, Any] = {}
    for entry in list_named_actors(all_namespaces=True):
        if entry["namespace"] == namespace and entry["name"].startswith(MANAGER_PREFIX):
            with suppress(ValueError):  # it has just ended
                actor = ray.get_actor(entry["name"], namespace=namespace)
                asked[entry["name"]] = actor.reports_to.remote()
    if asked:
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_SECONDS)
    answers: dict[str, str] = {}
    for name, answer in asked.items():
        # Who does not answer is left for the next time.
        with suppress(ray.exceptions.RayError):
            answers[name] = ray.get(answer, timeout=0.1)
    return answers


def _nodes() -> list[dict[str, Any]]:
    import ray
    from ray._private import state as ray_state  # there is no public way to what is free by node

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
        logger.info("manager %s is gone already", name)
