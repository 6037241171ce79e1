"""A driver of the cluster: runs the calls on its standard input, and writes an answer to each.

``python -m rollouts.fleet.gateway.driver ADDRESS``. Each call connects, asks and disconnects (0.02
to 0.3 s): Ray would end a process that stayed connected one minute after the head's death. The
gateway kills a driver that does not answer in time, and starts another.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from rollouts.fleet import ray_internals
from rollouts.fleet.gateway.messages import Answer, Call
from rollouts.fleet.process import child_environment

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 5.0
"""Time limit for a manager's answer to a call."""
# Resources of a node, reported as total and reserved amounts, by Ray's names.
_SHOWN: Final = {
    ("cpus", "cpus_used"): "CPU",
    ("gpus", "gpus_used"): "GPU",
    ("memory_bytes", "memory_used_bytes"): "memory",
    ("object_store_bytes", "object_store_used_bytes"): "object_store_memory",
}


class LaunchRefused(Exception):
    """The cluster responds but rejects the manager."""


def main() -> None:
    """Answer calls until the standard input ends, which is at the end of the gateway."""
    child_environment.hide_this_process()
    [address] = sys.argv[1:]
    # Ray and libraries may print: their output goes to the log of the gateway.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        call = msgspec.json.decode(line, type=Call)
        answers.write(msgspec.json.encode(answer_to(call, address=address)) + b"\n")


def answer_to(call: Call, *, address: str) -> Answer:
    """Run a call as a driver of the cluster; a failure is part of the answer."""
    try:
        import ray

        # All actors that a launch creates have this environment. Its local folders are packed and
        # stored in the cluster once, as long as an actor needs them, also for restarts of the
        # manager on another node.
        ray.init(
            address=address,
            namespace=call.namespace or None,
            runtime_env=dict(call.runtime_env),
            log_to_driver=False,
            ignore_reinit_error=True,
            configure_logging=False,
        )
    except Exception as error:  # noqa: BLE001 Ray raises many types
        return Answer(failure="unreachable", reason=f"no Ray cluster at {address}: {error}")
    try:
        return Answer(value=_OPERATIONS[call.operation](call, address))
    except LaunchRefused as error:
        return Answer(failure="refused", reason=str(error))
    except Exception as error:  # noqa: BLE001 Ray raises many types
        return Answer(failure="unreachable", reason=f"no Ray cluster at {address}: {error}")
    finally:
        ray_internals.disconnect_from_ray()


def _launch(call: Call, address: str) -> None:
    import ray

    if call.settings is None:
        raise LaunchRefused("the call has no settings of a manager")
    try:
        from rollouts.fleet.manager.actors import find, launch

        launch(address=address, namespace=call.namespace, name=call.name, settings=call.settings)
    except Exception as error:
        raise LaunchRefused(f"the cluster refused the manager: {error}") from error
    # Wait briefly: a manager that fails at once reports its error now.
    try:
        actor = find(namespace=call.namespace, name=call.name)
        if actor is None:
            raise LaunchRefused("the manager could not start: it has ended")
        ray.get(actor.ping.remote(), timeout=ANSWER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        logger.info("manager %s is still starting", call.name)
    except (ray.exceptions.RayError, ValueError) as error:
        lines = str(error).strip().splitlines()
        cause = lines[-1] if lines else ""
        raise LaunchRefused(f"the manager could not start: {cause}") from error


def _state(call: Call, _: str) -> str:
    """Return the value of a :class:`rollouts.control.rules.ActorState`."""
    import ray

    from rollouts.fleet.manager.actors import find

    actor = find(namespace=call.namespace, name=call.name)
    if actor is None:
        return "missing"
    try:
        ray.get(actor.ping.remote(), timeout=ANSWER_SECONDS)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError):
        return "silent"
    except ray.exceptions.RayActorError:
        return "missing"
    return "alive"


def _kill(call: Call, _: str) -> None:
    import ray

    from rollouts.fleet.manager.actors import find

    actor = find(namespace=call.namespace, name=call.name)
    if actor is None:
        logger.info("manager %s has already ended", call.name)
    else:
        ray.kill(actor, no_restart=True)


def _managers(call: Call, _: str) -> list[str]:
    """Return the managers that answer and report to the platform of the call."""
    import ray
    from ray.util import list_named_actors

    from rollouts.fleet.manager.actors import find

    pending: dict[str, Any] = {}
    for entry in list_named_actors(all_namespaces=True):
        if entry["namespace"] == call.namespace and entry["name"].startswith(call.name):
            actor = find(namespace=call.namespace, name=entry["name"])
            if actor is not None:
                pending[entry["name"]] = actor.reports_to.remote()
    if pending:
        ray.wait(list(pending.values()), num_returns=len(pending), timeout=ANSWER_SECONDS)
    ours = []
    for name, answer in pending.items():
        # Managers that do not answer are checked at the next call.
        with suppress(ray.exceptions.RayError):
            if ray.get(answer, timeout=0.1) == call.platform_url:
                ours.append(name)
    return ours


def _nodes(_: Call, __: str) -> list[dict[str, Any]]:
    import ray

    free = ray_internals.free_resources()
    rows = []
    for node in ray.nodes():
        total, left = node["Resources"], free.get(node["NodeID"], {})
        row: dict[str, Any] = {
            "node": node["NodeID"],
            "host": node.get("NodeManagerHostname") or node.get("NodeManagerAddress", ""),
            "is_head": ray_internals.HEAD_RESOURCE in total,
            "alive": bool(node["Alive"]),
        }
        for (name, used), resource in _SHOWN.items():
            row[name] = float(total.get(resource, 0.0))
            reserved = row[name] - float(left.get(resource, 0.0))
            row[used] = max(0.0, reserved) if row["alive"] else 0.0
        rows.append(row)
    return rows


def _rooms(_: Call, __: str) -> list[dict[str, Any]]:
    from rollouts.fleet.manager.worker_placement import rooms

    return [
        {"node": room.node, "total": _numbers(room.total), "free": _numbers(room.free)}
        for room in rooms()
    ]


def _numbers(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items()}


_OPERATIONS: Final[dict[str, Callable[[Call, str], Any]]] = {
    "launch": _launch,
    "state": _state,
    "kill": _kill,
    "managers": _managers,
    "nodes": _nodes,
    "rooms": _rooms,
}


if __name__ == "__main__":
    main()
