"""The GPU check measures every row that a machine allows, and gives a reason for the others."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import gpu_measures, gpu_page, gpu_rows
from benchmarks.gpu_measures import Wrong, copies_per_call
from benchmarks.gpu_rows import Row
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit

ROOT = Path(__file__).resolve().parents[3]
# Packages of this project that the check does not require, by their import names.
ABSENT = (
    *("ray", "django", "rest_framework", "drf_spectacular", "channels", "celery", "redis"),
    *("psycopg", "simdjson", "uvicorn", "whitenoise", "unfold"),
    *("prometheus_client", "xxhash", "backports", "isal", "rich", "safetensors", "pyarrow"),
    *("av", "pygame", "pynvml", "tokenizers"),
)
WITHOUT = """
import importlib.machinery, sys

class Without(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else super().find_spec(name, path, target)

sys.meta_path = [
    Without if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path
]
sys.argv = ["gpu-check", "--seconds", "0.1", "--folder", FOLDER, *OPTIONS]
from benchmarks.gpu_check import main
sys.exit(main())
"""


def check(
    folder: Path, *options: str, absent: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run the check where some packages are not installed and no GPU is visible."""
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "platform", "client"))
    script = WITHOUT.replace("FOLDER", repr(str(folder))).replace("ABSENT", repr(absent))
    return subprocess.run(
        [sys.executable, "-c", script.replace("OPTIONS", repr(options))],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""},
        cwd=ROOT,
    )


def outcomes(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "gpu-check-cpu.json").read_text())
    assert report["gpu"] is None
    assert {"torch", "python", "date", "commit"} <= report.keys()
    return {name: found["cpu"] for name, found in report["rows"].items()}


@pytest.mark.full("measures every row of the check")
def test_every_row_runs_on_a_cpu_with_the_required_packages_alone(tmp_path: Path) -> None:
    ran = check(tmp_path, "--device", "cpu", absent=ABSENT)
    assert ran.returncode == 0, ran.stdout + ran.stderr

    found = outcomes(tmp_path)
    assert list(found) == [row.name for row in gpu_rows.rows()]
    reasons = {name: row["reason"] for name, row in found.items() if row["state"] != "ok"}
    assert reasons.pop("ray") == "ray is not installed"
    for name in ("language weights", "adapter"):
        assert reasons.pop(name) == "safetensors is not installed"
    assert reasons.pop("nvml") == "a CPU has no readings of a GPU"
    assert set(reasons) == {f"{kind} float16" for kind in gpu_rows.POLICIES}
    assert all("float16 needs a GPU" in reason for reason in reasons.values())
    for name, row in found.items():
        if row["state"] == "ok" and name.split()[0] in gpu_rows.POLICIES:
            assert row["figures"]["steps_per_second"] > 0, name
    assert found["engine float16"]["figures"]["tokens_per_second"] > 0
    assert found["weights"]["figures"]["mb"] >= 99
    assert found["local fleet"]["figures"]["new_version_s"] > 0


def test_a_machine_without_a_gpu_has_its_own_exit_status(tmp_path: Path) -> None:
    ran = check(tmp_path, "--rows", "nvml")

    assert ran.returncode == 3
    assert "No GPU" in ran.stdout
    assert list(outcomes(tmp_path)) == ["nvml"]


def test_an_unknown_row_is_refused(tmp_path: Path) -> None:
    ran = check(tmp_path, "--rows", "nvml,tpu")

    assert ran.returncode == 2
    assert "unknown row tpu; choose from mlp float32" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_missing_packages(tmp_path: Path) -> None:
    ran = check(tmp_path, absent=(*ABSENT, "gymnasium", "psutil"))

    assert ran.returncode == 2
    assert "lacks gymnasium, psutil: pip install torch numpy gymnasium msgspec" in ran.stdout
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (Wrong("2 copies"), "failed", "Wrong: 2 copies"),
        (PolicyDoesNotFit("policy.kind", "no"), "failed", "PolicyDoesNotFit: policy.kind: no"),
        (PolicyDoesNotFit("policy.precision", "no"), "not available", "policy.precision: no"),
        (ModuleNotFoundError(name="ray"), "not available", "ray is not installed"),
    ],
)
def test_a_row_that_cannot_be_measured_has_a_reason(
    error: Exception, state: str, reason: str
) -> None:
    def measure(device: str, seconds: float) -> dict[str, float]:
        raise error

    outcome = gpu_rows.run(Row("a", "b", measure), "cpu", 1.0)

    assert (outcome.state, outcome.reason) == (state, reason)


def test_values_that_differ_from_the_cpu_fail_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_measures, "value_difference", lambda *_: 0.02)

    outcome = gpu_rows.run(gpu_rows.rows()[0], "cpu", 0.1)

    assert outcome.state == "failed"
    assert "64-64: a value differs by 0.02 from float32 on the CPU, limit 0.01" in outcome.reason


class Profile:
    """Stands for the profiler of a GPU that copied `count` times to the CPU."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, **_: object) -> "Profile":
        return self

    def __enter__(self) -> "Profile":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def key_averages(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(key="Memcpy DtoH (Device -> Pageable)", count=self._count),
            SimpleNamespace(key="Memcpy HtoD (Pageable -> Device)", count=7),
        ]


def test_copies_from_a_gpu_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.profiler, "profile", Profile(20))
    assert copies_per_call(lambda: None, "cuda") == 1.0

    monkeypatch.setattr(torch.profiler, "profile", Profile(60))
    with pytest.raises(Wrong, match="3 copies from the GPU per call, limit 1"):
        copies_per_call(lambda: None, "cuda")


REPORT = {
    "gpu": "NVIDIA H100",
    "torch": "2.13",
    "cuda_version": "13.0",
    "python": "3.12",
    "processors": 16,
    "date": "2026-11-24T04:00:00+00:00",
    "commit": "0123456789",
    "seconds": 5.0,
    "rows": {
        "mlp float32": {
            "cuda": {"state": "ok", "reason": "", "figures": {"steps_per_second": 57624}},
            "cpu": {"state": "ok", "reason": "", "figures": {"steps_per_second": 86806}},
        },
        "ray": {"cuda": {"state": "failed", "reason": "Wrong: a|b", "figures": {}}},
    },
}


def test_the_page_shows_the_committed_outcomes() -> None:
    page = gpu_page.PAGE.read_text(encoding="utf-8")

    assert page == gpu_page.renewed(page, gpu_page.committed())


def test_the_page_names_the_device_the_versions_and_each_outcome() -> None:
    page = gpu_page.renewed(f"before\n{gpu_page.BEGIN}\nold\n{gpu_page.END}\nafter", [REPORT])

    assert page.startswith("before\n")
    assert page.endswith("\nafter")
    assert "old" not in page
    assert "### NVIDIA H100\n\ntorch 2.13, CUDA 13.0" in page
    assert "commit 01234567; 5 s per measurement" in page
    assert "| ok | steps/s 57,624 | steps/s 86,806 |" in page
    assert "| failed | Wrong: a\\|b | – |" in page
    assert page.count("| not measured | – | – |") == len(gpu_rows.rows()) - 2


def test_the_page_without_a_result_states_that() -> None:
    text = gpu_page.written([])

    assert text.startswith(gpu_page.NONE)
    assert text.count("\n| ") == len(gpu_rows.rows()) + 1
