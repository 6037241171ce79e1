"""Ray actors of managers and workers, and the start of a run's manager; logic is in plain classes.

Those classes are imported inside the actors, so a process that only launches actors needs no
torch.
"""

import contextlib
import logging
import os
from collections import defaultdict, deque
from concurrent.futures import Future
from typing import Any, Final

import msgspec
import ray
from msgspec.structs import replace
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rolldeck.operator_requests import LogLines
from rolldeck.structs import prepare_structs
from rollouts.fleet import ray_internals
from rollouts.fleet.manager.worker_placement import (
    WorkerPlacement,
    anywhere_but,
    is_living,
    is_placed,
)
from rollouts.fleet.manager.workers import WorkerHandle, begin
from rollouts.fleet.process import child_environment
from rollouts.fleet.process.logs import read_log, redirect_output
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.weights.object_references import RefWeights
from rollouts.fleet.weights.records import WeightsOffer, WeightsRecord

logger = logging.getLogger(__name__)

CONCURRENCY: Final = 8
"""Concurrent calls per actor, so that a slow call does not block a ping."""
ANSWER_SECONDS: Final = 5.0


@ray.remote
class WorkerActor:
    """Ray actor of a :class:`rollouts.fleet.worker.wrapper.WorkerWrapper`."""

    def __init__(self, settings: bytes) -> None:
        child_environment.hide_this_process()
        prepare_structs()
        decoded = msgspec.json.decode(settings, type=WorkerSettings)
        decoded = replace(decoded, node_id=_own_node())
        redirect_output(decoded.fleet, worker=decoded.index)
        self._wrapper = begin(decoded, owns_process=True)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._wrapper, method)(*arguments)


@ray.remote(num_cpus=0, max_retries=0)
def read_log_there(settings: bytes, worker: int, slot: int | None, lines: int) -> LogLines:
    """Return the end of a log on the node that runs this task."""
    decoded = msgspec.json.decode(settings, type=FleetSettings)
    return read_log(decoded, worker=worker, slot=slot, lines=lines)


class NodeGone(RuntimeError):
    """The node of a worker is no longer part of the cluster."""


class RayHandle:
    """A worker in a Ray actor."""

    def __init__(self, settings: WorkerSettings, placement: WorkerPlacement) -> None:
        fleet = settings.fleet.config.fleet
        self._index = settings.index
        self._placement = placement
        self._actor = WorkerActor.options(  # type: ignore[attr-defined]
            name=f"worker {settings.fleet.run} {settings.incarnation}",
            num_cpus=fleet.num_cpus_per_worker,
            num_gpus=fleet.num_gpus_per_worker,
            resources=fleet.resources,
            **placement.placement(settings.index),
            max_restarts=0,
            max_concurrency=CONCURRENCY,
        ).remote(msgspec.json.encode(settings))

    @property
    def actor_id(self) -> str:
        """Id of the actor, which also identifies the actor after it has ended."""
        return ray_internals.id_of(self._actor)

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        future: Future[Any] = self._actor.call.remote(method, *arguments).future()
        return future

    def kill(self) -> None:
        ray.kill(self._actor, no_restart=True)

    def obstacle(self) -> str:
        """Return which resources the cluster lacks for the worker; empty once it is placed."""
        return "" if self.is_placed() else self._placement.obstacle(self._index)

    def is_placed(self) -> bool:
        return is_placed(self._actor)


class RayWorkers:
    """Source that starts workers on the Ray cluster of this process."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._placement = WorkerPlacement(settings)
        # Keep two ids: the newest worker may not be placed yet and so has no log.
        self._actors: defaultdict[int, deque[str]] = defaultdict(lambda: deque(maxlen=2))

    def spawn(self, settings: WorkerSettings) -> WorkerHandle:
        handle = RayHandle(settings, self._placement)
        self._actors[settings.index].appendleft(handle.actor_id)
        return handle

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        self._placement.exclude_nodes(nodes)

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:
        nodes = [
            node for actor_id in self._actors[index] if (node := ray_internals.node_of(actor_id))
        ]
        if not nodes or nodes[0] == _own_node():
            return None
        future: Future[Any] = Future()
        if not is_living(nodes[0]):
            future.set_exception(NodeGone("its node and its log are no longer in the cluster"))
            return future
        pinned = read_log_there.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=nodes[0], soft=False)
        )
        settings = msgspec.json.encode(self._settings)
        reading: Future[Any] = pinned.remote(settings, index, slot, lines).future()
        return reading

    def share(self, record: WeightsRecord) -> WeightsOffer:
        """Put the record into the object store once; all workers map the same memory."""
        return RefWeights.put(record)

    def close(self) -> None:
        self._placement.close()

    def retire(self) -> None:
        """End the manager's own actor, which Ray would otherwise keep alive."""
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _own_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


@ray.remote
class ManagerActor:
    """Actor of the :class:`RolloutManager` of one run: detached, named and restarted by Ray."""

    def __init__(self, settings: bytes) -> None:
        from rollouts.fleet.manager.manager import RolloutManager

        child_environment.hide_this_process()
        prepare_structs()
        decoded = msgspec.json.decode(settings, type=FleetSettings)
        self._platform_url = decoded.platform_url
        redirect_output(decoded, worker=None)
        self._manager = RolloutManager(
            decoded, RayWorkers(decoded), owns_process=True, node_id=_own_node()
        )

    def ping(self) -> str:
        return self._manager.ping()

    def reports_to(self) -> str:
        return self._platform_url

    def pid(self) -> int:
        return os.getpid()

    def snapshot(self) -> bytes:
        """Return the state of the fleet as a JSON :class:`rolldeck.wire.FleetReport`."""
        return msgspec.json.encode(self._manager.snapshot())

    def shutdown(self) -> None:
        self._manager.shutdown()


def launch(*, address: str, namespace: str, name: str, settings: FleetSettings) -> None:
    """Start a detached manager called `name`, unless one with these settings exists.

    A manager that has other settings or does not answer is ended first.
    """
    found = find(namespace=namespace, name=name)
    if found is not None:
        fingerprint = ""
        with contextlib.suppress(GetTimeoutError, RayActorError):
            fingerprint = str(ray.get(found.ping.remote(), timeout=ANSWER_SECONDS))
        if fingerprint == settings.fingerprint:
            logger.info("manager %s already exists", name)
            return
        kill(namespace=namespace, name=name)
    ManagerActor.options(  # type: ignore[attr-defined]
        name=name,
        namespace=namespace,
        lifetime="detached",
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=CONCURRENCY,
        get_if_exists=True,
        **anywhere_but(settings.closed_nodes),
    ).remote(msgspec.json.encode(settings))
    logger.info("manager %s launched at %s", name, address)


def find(*, namespace: str, name: str) -> Any | None:
    """Return the manager's actor handle; None if it does not exist or is being removed."""
    try:
        return ray.get_actor(name, namespace=namespace)
    except ray_internals.ACTOR_MISSING:
        return None


def kill(*, namespace: str, name: str) -> bool:
    """End the manager and its workers; return False if it does not exist."""
    actor = find(namespace=namespace, name=name)
    if actor is None:
        return False
    with contextlib.suppress(RayActorError):
        ray.kill(actor, no_restart=True)
    return True
