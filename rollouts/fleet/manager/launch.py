"""Start, find and end a run's manager on the connected cluster."""

import contextlib
import logging
from typing import Any, Final

import msgspec
import ray
from ray.exceptions import GetTimeoutError, RayActorError

from rollouts.fleet.manager.actors import CONCURRENCY, ManagerActor
from rollouts.fleet.manager.worker_placement import anywhere_but
from rollouts.fleet.process.settings import FleetSettings

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 5.0


def launch(*, address: str, namespace: str, name: str, settings: FleetSettings) -> None:
    """Start a detached manager called `name`, unless one with these settings exists.

    A manager that has other settings or does not answer is ended first.

    Args:
        address: Address of the cluster, for log messages.
        namespace: Ray namespace of the name.
        name: Name of the actor.
        settings: Settings of the fleet.
    """
    found = find(namespace=namespace, name=name)
    if found is not None:
        if _fingerprint(found) == settings.fingerprint:
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
    """Return the manager's actor handle; None if it does not exist."""
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def kill(*, namespace: str, name: str) -> bool:
    """End the manager and its workers; return False if it does not exist."""
    actor = find(namespace=namespace, name=name)
    if actor is None:
        return False
    with contextlib.suppress(RayActorError):
        ray.kill(actor, no_restart=True)
    return True


def _fingerprint(actor: Any) -> str:
    try:
        return str(ray.get(actor.ping.remote(), timeout=ANSWER_SECONDS))
    except (GetTimeoutError, RayActorError):
        return ""
