"""The GPU check reserves shares of a device on a real Ray cluster."""

from pathlib import Path

import pytest

from tests.unit.benchmarks.test_gpu_check import check, outcomes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]


def test_two_workers_share_a_gpu_of_a_local_ray_cluster(tmp_path: Path) -> None:
    """The row runs twice in one process, as on a machine with a GPU: once per device."""
    ran = check(tmp_path, "--device", "cpu", "--rows", "ray,language weights,ray")
    assert ran.returncode == 0, ran.stdout + ran.stderr

    found = outcomes(tmp_path)
    assert found["ray"]["figures"] == {"workers": 2, "gpus_reserved": 1.0}
    assert found["language weights"]["state"] == "ok"
