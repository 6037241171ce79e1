"""Check the computing parts of a fleet on this machine's GPU; without a GPU, on its CPU.

`make gpu-check`. It needs neither Ray, Django, a server nor a network; NEEDED lists the packages.
On each device a worker like those of a fleet steps CartPole-v1 into a sink with every kind of
policy, compared with the bare loop of the same policy. A `LocalFleet` does the same over HTTP and
adopts a second version of the weights, and 100 MB of weights are prepared and adopted. Figures are
written to `benchmarks/results/gpu-<name>.json`. Exit status: 0, 1 for values that differ between
GPU and CPU, 2 for missing packages, 3 without a GPU.
"""

import argparse
import importlib.util
import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("results")
NEEDED: Final = ("torch", "numpy", "gymnasium", "msgspec", "psutil", "httpx")
KINDS: Final = ("mlp", "gru")
NO_GPU: Final = 3
"""Exit status without a GPU; 1: values differ, 2: packages are missing."""
TOLERANCE: Final = 1e-2
"""Tolerated difference between values of GPU and CPU: TF32 has a mantissa of 10 bits."""


def main() -> int:
    """Measure every device, and print and save the figures."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{sys.executable} lacks {', '.join(missing)}: pip install {' '.join(NEEDED)}")
        return 2
    return _measure(arguments.seconds, arguments.folder)


def _measure(seconds: float, folder: Path) -> int:
    import torch

    from benchmarks import gpu_measures

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    report: dict[str, Any] = {
        "gpu": name or None,
        "torch": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
    }
    print(name or "No GPU: torch sees no CUDA device here. The figures below are of the CPU only.")
    for device in ("cuda", "cpu") if name else ("cpu",):
        report[device] = {}
        for kind in KINDS:
            report[device][kind] = figures = gpu_measures.throughput(device, kind, seconds)
            print(f"{device} {kind}: {_words(figures)}")
        report[device]["decisions_per_second"] = rates = {
            network: round(gpu_measures.decisions(device, config, space, seconds))
            for network, (config, space) in gpu_measures.NETWORKS.items()
        }
        print(f"{device}, decisions per second: {_words(rates)}")
        report[device]["fleet"] = whole = gpu_measures.fleet(device, seconds)
        print(f"{device} LocalFleet of {gpu_measures.WORKERS} workers: {_words(whole)}")
        report[device]["weights"] = swapped = gpu_measures.weights(device)
        print(f"{device}: {gpu_measures.WEIGHTS_MB} MB of weights: {_words(swapped)}")
    if name:
        report["value_difference"] = {
            network: gpu_measures.value_difference(config, space)
            for network, (config, space) in gpu_measures.NETWORKS.items()
        }
        print(f"largest difference of a value, GPU and CPU: {_words(report['value_difference'])}")
        wrong = [kind for kind, by in report["value_difference"].items() if not by < TOLERANCE]
        if wrong:
            print(f"GPU and CPU differ by {TOLERANCE} or more: {', '.join(wrong)}")
            return 1
    folder.mkdir(exist_ok=True, parents=True)
    slug = re.sub(r"\W+", "-", name.lower()).strip("-") or "none"
    path = folder / f"gpu-{slug}.json"
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return 0 if name else NO_GPU


def _commit() -> str | None:
    """Return the commit of the checkout; None without git."""
    command = ["git", "-C", str(RESULTS.parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _words(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
