"""Check the computing parts of a fleet on this machine's GPU; without a GPU, on its CPU.

`make gpu-check`. It needs neither Django, a server nor a network; NEEDED lists the packages. Rows
that need more, such as Ray, are `not available` without it. Every row is measured on the GPU and,
for comparison, on the CPU of the machine. The outcomes are written to
`benchmarks/results/gpu-check-<device>.json`, and those of GPUs to `docs/explanation/gpu.md`.
Exit status: 0, 1 if a row failed, 2 for missing packages or an unknown row, 3 without a GPU, unless
`--device cpu` requests the CPU.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import commit

RESULTS: Final = Path(__file__).with_name("results")
NEEDED: Final = ("torch", "numpy", "gymnasium", "msgspec", "psutil", "httpx")
OWN_POLICY: Final = Path(__file__).parents[1] / "examples" / "own_policy"
"""Folder of the registered policy."""
FAILED, MISUSED, NO_GPU = 1, 2, 3


def main() -> int:
    """Measure every row on every device; print and save the outcomes."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="device to check (default: the GPU, and the CPU for comparison)",
    )
    parser.add_argument("--rows", default="", help="names of rows, comma-separated (default: all)")
    arguments = parser.parse_args()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{sys.executable} lacks {', '.join(missing)}: pip install {' '.join(NEEDED)}")
        return MISUSED
    return _check(arguments)


def _check(arguments: argparse.Namespace) -> int:
    import torch

    from benchmarks import gpu_measures, gpu_page, gpu_rows

    known = {row.name: row for row in gpu_rows.rows()}
    names = [name.strip() for name in arguments.rows.split(",") if name.strip()] or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"unknown row {', '.join(unknown)}; choose from {', '.join(known)}")
        return MISUSED
    _register(gpu_measures.REGISTERED)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    if not gpu and arguments.device != "cpu":
        print("No GPU: torch sees no CUDA device here. The figures below are of the CPU only.")
    devices = ["cuda", "cpu"] if gpu and arguments.device == "auto" else [arguments.device]
    if not gpu:
        devices = ["cpu"]
    report = _machine(gpu if "cuda" in devices else "", arguments.seconds)
    for name in names:
        report["rows"][name] = outcomes = {}
        for device in devices:
            outcome = gpu_rows.run(known[name], device, arguments.seconds)
            outcomes[device] = outcome
            words = outcome.reason or gpu_page.words(outcome.figures)
            print(f"{device} {name}: {outcome.state}: {words}", flush=True)
    _save(report, arguments.folder)
    found = [one for row in report["rows"].values() for one in row.values()]
    if any(outcome.state == "failed" for outcome in found):
        return FAILED
    return 0 if gpu or arguments.device == "cpu" else NO_GPU


def _register(policy: str) -> None:
    """Register the policy of the example, as an administrator does."""
    sys.path.insert(0, str(OWN_POLICY))
    paths = [str(OWN_POLICY), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["ROLLDECK_POLICIES"] = policy


def _machine(gpu: str, seconds: float) -> dict[str, Any]:
    import torch

    return {
        "gpu": gpu or None,
        "torch": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit() or None,
        "seconds": seconds,
        "rows": {},
    }


def _save(report: dict[str, Any], folder: Path) -> None:
    import msgspec

    from benchmarks import gpu_page

    folder.mkdir(exist_ok=True, parents=True)
    slug = re.sub(r"\W+", "-", (report["gpu"] or "cpu").lower()).strip("-")
    path = folder / f"gpu-check-{slug}.json"
    text = json.dumps(report, indent=2, default=msgspec.to_builtins)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"written to {path}")
    if report["gpu"] and folder == RESULTS:
        gpu_page.renew()
        print(f"written to {gpu_page.PAGE}")


if __name__ == "__main__":
    sys.exit(main())
