"""The GPU check needs neither Ray nor Django, and says when there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Whatever this project needs besides what the check names, as its packages are imported.
ABSENT = (
    *("ray", "django", "rest_framework", "drf_spectacular", "channels", "celery", "redis"),
    *("psycopg", "simdjson", "uvicorn", "whitenoise", "unfold", "structlog"),
    *("prometheus_client", "xxhash", "zstandard", "isal", "rich", "safetensors", "pyarrow"),
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
sys.argv = ["gpu-check", "--seconds", "0.2", "--folder", FOLDER]
from benchmarks.gpu_check import main
sys.exit(main())
"""


def check(folder: Path, *, absent: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Run the check where some packages are not installed, and no GPU is to be seen."""
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "platform", "client"))
    script = WITHOUT.replace("FOLDER", repr(str(folder))).replace("ABSENT", repr(absent))
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""},
        cwd=ROOT,
    )


def test_the_check_runs_with_what_it_names_alone_and_says_that_there_is_no_gpu(
    tmp_path: Path,
) -> None:
    ran = check(tmp_path, absent=ABSENT)
    assert ran.returncode == 3, ran.stderr

    document = json.loads((tmp_path / "gpu-none.json").read_text())
    assert document["gpu"] is None
    assert {"torch", "python", "date", "commit"} <= document.keys()
    assert "No GPU" in ran.stdout
    assert document["cpu"]["mlp"]["steps_per_second"] > 0
    assert document["cpu"]["gru"]["steps_per_second"] > 0
    assert document["cpu"]["fleet"]["steps_per_second"] > 0
    assert document["cpu"]["fleet"]["new_version_s"] > 0
    assert document["cpu"]["weights"]["mb"] >= 99
    assert min(document["cpu"]["decisions_per_second"].values()) > 0


def test_an_error_names_the_package_that_a_machine_lacks(tmp_path: Path) -> None:
    ran = check(tmp_path, absent=(*ABSENT, "gymnasium", "psutil"))

    assert ran.returncode == 2
    assert "lacks gymnasium, psutil: pip install torch numpy gymnasium msgspec" in ran.stdout
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []
