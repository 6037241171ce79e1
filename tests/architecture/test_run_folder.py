"""An interrupted run of the tests leaves neither processes nor temporary files."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import is_gone
from tests.run_guard import processes_of
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
# A run that calls the function of the conftest, and a test that does not end.
RUN = """
import os, signal, subprocess, sys, time
from pathlib import Path
from tests.run_folder import enter_run_folder
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
folder = enter_run_folder(grace_seconds=0.5)
(folder / "large").write_bytes(bytes(1000))
subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
print(folder, flush=True)
time.sleep(600)
"""
# A process that a test started in a session of its own and that ignores requests to end.
CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


@contextmanager
def interrupted_run() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a run as a person does, outside of this run's folder."""
    variables = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    run = subprocess.Popen(
        [sys.executable, "-c", RUN.format(child=CHILD)],
        env=variables | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    try:
        yield run, folder
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_guard_ends_processes_and_removes_the_folder(number: signal.Signals) -> None:
    with interrupted_run() as (run, folder):
        eventually(lambda: len(processes_of(folder)) == 1)
        (child,) = processes_of(folder)

        run.send_signal(number)
        run.wait(10)

        eventually(lambda: not folder.exists(), 30)
        assert is_gone(child)
