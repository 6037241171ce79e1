"""A test process that dies fails its test without blocking the others."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.scheduling import SharedServers

def pytest_xdist_make_scheduler(config, log):
    return SharedServers(config, log)
"""
HARMLESS = """
import time

def test_one():
    time.sleep(0.1)

def test_two():
    time.sleep(0.1)
"""
DEADLY = """
import os
from pathlib import Path

def test_once_deadly():
    met = Path(__file__).with_suffix(".met")
    if not met.exists():
        met.touch()
        os.kill(os.getpid(), 9)
"""


def test_all_other_tests_run_when_a_process_crashes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(12):
        (tmp_path / f"test_{number:02}.py").write_text(DEADLY if number == 6 else HARMLESS)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadscope", str(tmp_path)]

    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-p", "no:django"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "crashed while running 'test_06.py::test_once_deadly'" in done.stdout, done.stdout
    assert "1 failed, 23 passed" in done.stdout
