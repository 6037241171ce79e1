"""Faults of campaigns that need no server."""

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.faults import STEP_SECONDS, step_clock
from tests.chaos.server import fake_clock

PROGRAM = """
import time
began = time.monotonic(), time.time()
print(flush=True)
input()
time.sleep(2.2)
print(time.monotonic() - began[0], time.time() - began[1])
"""


def test_the_clock_of_a_process_is_stepped_and_it_sleeps_as_long_as_before(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    environment = os.environ | fake_clock(clock) | {"PYTHONPATH": str(tmp_path / "site")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        heal = step_clock(clock, STEP_SECONDS)
        printed, _ = process.communicate("\n", timeout=30)
        heal()

    slept, passed = map(float, printed.split())
    assert 2.2 <= slept < 10
    assert STEP_SECONDS <= passed < STEP_SECONDS + 10
    assert clock.read_text() == "+0\n"
