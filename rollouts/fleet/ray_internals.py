"""Everything that depends on Ray's version: non-public calls, and workarounds of its behavior.

No other module imports a name of Ray that begins with an underscore. `make test-ray-versions` runs
the tests of real clusters on the oldest and the newest supported version. Importing this module
does not import Ray.
"""

import gc
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

COMMAND_LINE: Final = "ray.scripts.scripts"
"""Module of the command `ray`, for an interpreter whose folder of scripts is not on the PATH."""
START: Final = (sys.executable, "-P", "-m", COMMAND_LINE, "start", "--block")
STARTED: Final = "Ray runtime started"
"""What `ray start` prints last, once all parts of the node run."""
HEALTH: Final = {"RAY_health_check_period_ms": "1000"}
"""A node counts as dead after five failed checks: 5 s, compared with 15 s by Ray's default. A slow
node still has ten seconds for each answer."""
ON_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray replaces a loopback address by the machine's public one and then listens on every interface,
unless clusters of several machines are disabled. Its drivers need the setting too."""
HEAD_RESOURCE: Final = "node:__internal_head__"
"""Resource that only the head has."""
NODE_ID_LABEL: Final = "ray.io/node-id"
"""Label that Ray sets on every node."""
ACTOR_MISSING: Final = (ValueError, AssertionError)
"""Errors of `ray.get_actor` for an actor that does not exist. Ray deletes the class of an ended
actor before its name, and then asserts that it exists."""
MAX_PAUSE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.005


def free_resources() -> Mapping[str, Mapping[str, float]]:
    """Return the free resources of each living node, by its id."""
    from ray._private import state

    free: Mapping[str, Mapping[str, float]] = state.available_resources_per_node()
    return free


def id_of(actor: Any) -> str:
    """Return the id of an actor; unlike a handle, it keeps nothing alive."""
    found: str = actor._actor_id.hex()  # noqa: SLF001 no public API
    return found


def node_of(actor_id: str) -> str:
    """Return the id of the node that runs an actor's process, or ran it last.

    Empty if the actor has never been placed.
    """
    import ray
    from ray._private import state

    address = state.actors(actor_id).get("Address", {})
    place = address.get("NodeID", ""), address.get("Port", 0)
    # The address of a queued actor is that of the node manager.
    queues = {(node["NodeID"], node["NodeManagerPort"]) for node in ray.nodes()}
    return "" if not place[1] or place in queues else str(place[0])


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


def disconnect_from_ray() -> None:
    """Disconnect this process from Ray with garbage collection disabled.

    Ray shuts its C++ part down before it marks itself as disconnected. If another thread's
    collection freed an object reference in between, Ray would call the missing part and end the
    process.
    """
    import ray

    with no_collection():
        ray.shutdown()
