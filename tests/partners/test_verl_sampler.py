"""Replay buffers of verl V1 on TransferQueue, with samples that survive a crash."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.partners.programs import program
from tests.server import NO_RAY, Server, running_server

pytestmark = pytest.mark.partner
PROGRAM = "tests/partners/verl_program.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path / "var", RAY_ADDRESS=NO_RAY) as started:
        yield started


def test_buffers_of_verl_sample_the_trajectories_stored_before_a_crash(
    server: Server, tmp_path: Path
) -> None:
    run = server.new_run("verl")
    with program(server, tmp_path / "fill", PROGRAM, "fill", run, partner="verl") as filling:
        stored = filling.wait_for("stored")
        filling.process.kill()
        filling.process.wait()
        for pid in stored["children"]:
            if not processes.is_gone(pid):
                os.kill(pid, signal.SIGKILL)

    with program(server, tmp_path / "sample", PROGRAM, "sample", run, partner="verl") as sampling:
        sampling.finish()

    found = {line["mode"]: line for line in sampling.lines("mode")}
    # Finished prompts of the oldest global step first.
    assert found["sync"]["keys"] == ["p3_0_0", "p3_1_0", "p4_0_0", "p4_1_0"]
    assert found["separate_async"]["keys"] == ["p1_0_0", "p1_1_0", "p2_0_0", "p2_1_0"]
    assert found["sync"]["tags"] == [{"seq_len": 6}, {"seq_len": 6}, {"seq_len": 7}, {"seq_len": 7}]
    assert all(line["is_equal"] for line in found.values())
    assert sampling.lines("left") == [
        {"left": ["p0", "p0_0_0", "p0_1_0", "p5", "p5_0_0", "p5_1_0"]}
    ]
