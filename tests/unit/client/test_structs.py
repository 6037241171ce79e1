"""Threads may decode a message class for the first time at the same time."""

import subprocess
import sys
from pathlib import Path

import msgspec

from rolldeck import wire
from rolldeck.structs import prepare_structs

ROOT = Path(__file__).resolve().parents[3]
TRIES = 20
"""Without the preparation, about 7 of 40 processes ended with SIGSEGV."""
DECODE = """
import sys, threading
import msgspec
from rolldeck.wire import FleetReport

sys.setswitchinterval(1e-5)
body = sys.stdin.buffer.read()
barrier = threading.Barrier(8)


def decode():
    barrier.wait()
    for _ in range(5):
        msgspec.json.decode(body, type=FleetReport)


threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_first_decodes_in_several_threads_do_not_end_the_process() -> None:
    report = wire.FleetReport(incarnation="a", sequence=1, state="running", workers=[])
    environment = {"PYTHONPATH": str(ROOT / "client"), "PATH": "/usr/bin:/bin"}
    codes = [
        subprocess.run(
            [sys.executable, "-c", DECODE],
            input=msgspec.json.encode(report),
            env=environment,
            check=False,
        ).returncode
        for _ in range(TRIES)
    ]

    assert codes == [0] * TRIES


def test_classes_that_json_cannot_hold_are_left_out() -> None:
    class Foreign(msgspec.Struct):
        value: type[int]

    assert prepare_structs() > 20
    del Foreign
