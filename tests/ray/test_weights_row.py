"""The benchmark of weights runs on the Ray cluster that it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from benchmarks.bench import Bench
from benchmarks.rows import p8_weights

result = p8_weights.ROW.result(Bench(pairs=1, tiny=True, alone=True))
assert result["ours"] > 0, result
"""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]


def test_weights_reach_the_workers_of_a_cluster() -> None:
    """The row runs in a process of its own, because Ray keeps the token of its first cluster."""
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "platform", ROOT / "client"))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}

    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=variables | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
