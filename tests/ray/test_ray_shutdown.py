"""A process that leaves a cluster survives, while other threads release objects."""

import subprocess
import sys

import pytest

from tests.ray_head import RayHead

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]

VISIT = """
import gc
import sys
import threading

import ray
from ray._private.worker import global_worker

from rollouts.fleet.ray_internals import disconnect_from_ray


class Knot:
    pass


def litter(refs):
    for _ in range(5 * gc.get_threshold()[0]):
        knot = Knot()
        knot.me = knot
        knot.ref = refs.pop() if refs else None


class Core:
    # Stands before Ray's own, and lets another thread collect when that one has gone.
    def __init__(self, core):
        self.core = core
        self.refs = [ray.put(1)]

    def __getattr__(self, name):
        return getattr(self.core, name)

    def shutdown_driver(self):
        self.core.shutdown_driver()
        thread = threading.Thread(target=litter, args=[self.refs])
        thread.start()
        thread.join()


ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
global_worker.core_worker = Core(global_worker.core_worker)
{leave}
print("left")
"""


def visit(head: RayHead, leave: str) -> str:
    command = [sys.executable, "-c", VISIT.format(leave=leave), head.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def test_references_freed_by_another_thread_after_shutdown_do_not_end_the_process(
    ray_head: RayHead,
) -> None:
    assert "left" in visit(ray_head, "disconnect_from_ray()")


def test_without_the_guard_ray_ends_the_process(ray_head: RayHead) -> None:
    """Ray alone ends the process; if this test fails, the workaround can be removed."""
    assert "left" not in visit(ray_head, "ray.shutdown()")
