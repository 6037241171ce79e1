"""The GPU check needs neither Ray nor Django, and says when there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Only these and what they need themselves may be installed on a GPU machine.
WITHOUT = """
import sys

class Absent:
    NAMES = {"ray", "django", "rest_framework", "celery", "channels", "psycopg", "httpx", "rich"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.NAMES:
            raise ModuleNotFoundError(f"{name} is not installed here")

sys.meta_path.insert(0, Absent())
sys.argv = ["gpu-check", "--seconds", "0.2", "--folder", FOLDER]
from benchmarks.gpu_check import main
sys.exit(main())
"""


def test_the_check_runs_with_torch_and_gymnasium_alone(tmp_path: Path) -> None:
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "platform", "client"))
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT.replace("FOLDER", repr(str(tmp_path)))],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""},
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr

    found = json.loads((tmp_path / "gpu-none.json").read_text())
    assert found["gpu"] is None
    assert "No GPU" in ran.stdout
    assert found["cpu"]["mlp"]["steps_per_second"] > 0
    assert found["cpu"]["gru"]["steps_per_second"] > 0
    assert found["cpu"]["weights"]["mb"] >= 99
