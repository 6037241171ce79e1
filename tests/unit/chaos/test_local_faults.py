"""Faults of campaigns that need no server."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

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
    variables: dict[str, str] = {}
    with suppress(LookupError):
        variables = fake_clock(clock)
    if not variables:
        pytest.skip("libfaketime is not installed")
    command = [sys.executable, "-c", PROGRAM]
    environment = os.environ | variables | {"PYTHONPATH": str(tmp_path / "site")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        heal = step_clock(clock, STEP_SECONDS)
        printed, _ = process.communicate("\n", timeout=30)
        heal()

    slept, passed = map(float, printed.split())
    assert 2.2 <= slept < 10
    assert STEP_SECONDS <= passed < STEP_SECONDS + 10
    assert clock.read_text() == "+0\n"
