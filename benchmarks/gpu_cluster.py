"""Check shares of a GPU and its driver's readings. See :mod:`benchmarks.gpu_check`."""

import os
import secrets
import tempfile
from typing import Final

import torch

from benchmarks.gpu_measures import Figures, Wrong, all_act_with, await_until, publish
from benchmarks.sink_platform import SinkPlatform, served
from benchmarks.sink_worker import settings_of

NAME: Final = "gpu-check"
WORKERS: Final = 2
SHARE: Final = 0.5
ENVS: Final = 8


class Unavailable(RuntimeError):
    """This machine lacks something that a row needs."""


def ray_fleet(device: str) -> Figures:
    """Run a fleet on a local Ray cluster whose workers share one GPU, reserved together.

    On a CPU the GPU exists only in Ray's books.

    Raises:
        Wrong: If the shares of the workers do not add up to the GPU.
        TimeoutError: If the fleet sends no fragment or does not adopt a version.
    """
    # Without a token, Ray would write one to the user's home. Ray reads it once per process.
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    from rollouts.fleet.manager.actors import kill, launch
    from rollouts.fleet.manager.worker_placement import rooms

    platform = SinkPlatform()
    if not os.environ.get("CUDA_VISIBLE_DEVICES", "unset"):
        del os.environ["CUDA_VISIBLE_DEVICES"]  # Ray would refuse to count a hidden GPU
    ray.init(
        address="local",
        num_cpus=WORKERS,
        num_gpus=1,
        namespace=NAME,
        include_dashboard=False,
        log_to_driver=False,
    )
    try:
        with tempfile.TemporaryDirectory() as folder, served(platform) as url:
            settings = settings_of(
                folder,
                device=device,
                policy={"kind": "mlp"},
                envs=ENVS,
                workers=WORKERS,
                url=url,
                num_gpus_per_worker=SHARE,
                placement="pack",
            )
            publish(platform, settings.config.policy, device, step=0)
            launch(address="local", namespace=NAME, name=NAME, settings=settings)
            await_until(lambda: platform.fragments > 0, "the first fragment")
            await_until(lambda: all_act_with(platform, 0), "the first version")
            free = sum(room.free.get("GPU", 0.0) for room in rooms())
            kill(namespace=NAME, name=NAME)
    finally:
        ray.shutdown()
    if free:
        raise Wrong(f"{free:g} GPUs are free beside {WORKERS} workers with {SHARE:g} each")
    workers = platform.report.workers if platform.report else []
    memory = [one.gpu_memory_bytes for one in workers if one.gpu_memory_bytes is not None]
    figures: Figures = {"workers": len(workers), "gpus_reserved": WORKERS * SHARE}
    return {**figures, "reported_gpu_mb": round(max(memory) / 1e6)} if memory else figures


def nvml(device: str) -> Figures:
    """Return the readings of NVIDIA's driver, as workers report them.

    Raises:
        Unavailable: If the driver or its module is missing.
        Wrong: If the memory in use does not grow by an allocation.
    """
    from rollouts.fleet.worker.resources import GpuReader, gpu_memory

    if device == "cpu":
        raise Unavailable("a CPU has no readings of a GPU")
    torch.cuda.empty_cache()
    before = gpu_memory()
    if before is None:
        raise Unavailable("pynvml or NVIDIA's driver is missing")
    held = torch.ones(1 << 28, dtype=torch.uint8, device=device)
    torch.cuda.synchronize()
    busy, used = GpuReader().read()
    if used is None or busy is None or used - before[1] < held.numel() // 2:
        raise Wrong(f"256 MB more in use changed the reading from {before[1]} to {used} bytes")
    return {
        "gpu_percent": busy,
        "used_mb": round(used / 1e6),
        "total_mb": round(before[0] / 1e6),
    }
