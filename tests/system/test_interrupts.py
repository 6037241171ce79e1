"""Ctrl-C during `make test` ends every process that the tests have started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.processes import descendants
from tests import processes
from tests.processes import is_gone
from tests.server import ROOT, wait_until

pytestmark = [pytest.mark.system, pytest.mark.full("starts, loads and kills servers for minutes")]

# A test of this file uses a server with a Ray head, a browser, and a process that runs the seed.
INNER = "tests/e2e/test_home_page.py"


def test_ctrl_c_leaves_no_server_no_ray_head_and_no_seeding_process(
    tmp_path: Path,
) -> None:
    # In the shared base folder pytest would delete the folders of older sessions before it ends,
    # which takes minutes after whole runs of the suite.
    own_folder = f"--basetemp={tmp_path / 'inner'}"
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", own_folder]
    with processes.start(
        [*command, INNER], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as session:

        def is_seeding() -> bool:
            assert session.poll() is None, "the inner session ended before it was interrupted"
            lines = list(descendants(session.pid).values())
            return all(
                any(word in line for line in lines)
                for word in ("tests.sample_runs", "manage.py up", "raylet", "postgres", "chrom")
            )

        wait_until(is_seeding, seconds=300, what="every kind of process runs")
        below = descendants(session.pid)
        # Like a terminal, signal every process of the foreground group.
        os.killpg(session.pid, signal.SIGINT)
        session.wait(60)

    def left() -> dict[int, str]:
        return {pid: line for pid, line in below.items() if not is_gone(pid)}

    try:
        wait_until(lambda: not left(), seconds=60, what="every process has ended")
    finally:
        for pid in left():
            os.kill(pid, signal.SIGKILL)
