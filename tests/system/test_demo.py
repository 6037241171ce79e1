"""`manage.py demo` shows a learning policy and cleans up completely."""

import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests import processes
from tests.initial_database import copy_database
from tests.login_links import redeem
from tests.server import ROOT, environment, free_port, in_a_shell, wait_until
from tests.system.test_up import living

pytestmark = [pytest.mark.system, pytest.mark.full("starts, loads and kills servers for minutes")]
DEMO = [sys.executable, "manage.py", "demo"]


def test_the_demo_reaches_its_target_and_ends(tmp_path: Path) -> None:
    done = processes.run(
        [*DEMO, "--exit"],
        cwd=ROOT,
        env=environment(tmp_path, free_port()),
        capture_output=True,
        text=True,
        timeout=640,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    reached = re.search(r"Mean return ([\d.]+) over the last 20 episodes", done.stdout)
    assert reached is not None
    assert float(reached[1]) >= 450
    assert re.search(r"First episode, [\d.]+ seconds after the command", done.stdout)
    wait_until(lambda: not living(tmp_path), seconds=60, what="nothing lives")


def test_a_demo_that_misses_its_target_fails(tmp_path: Path) -> None:
    copy_database(tmp_path / "postgres")
    done = processes.run(
        [*DEMO, "--exit", "--limit-seconds", "1"],
        cwd=ROOT,
        env=environment(tmp_path, free_port()),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 1
    assert re.search(r"Target missed: .* of 450 after 1 seconds", done.stdout)
    assert "the demo missed its target" in done.stderr
    wait_until(lambda: not living(tmp_path), seconds=60, what="nothing lives")


def test_the_link_signs_in_once_and_ctrl_c_ends_everything(tmp_path: Path) -> None:
    copy_database(tmp_path / "postgres")
    port = free_port()
    log = tmp_path / "demo.log"
    with log.open("wb") as out:
        demo = processes.start(
            [*DEMO, "--limit-seconds", "1"],
            cwd=ROOT,
            env=environment(tmp_path, port),
            stdout=out,
            stderr=out,
        )
    try:
        link = wait_until(
            lambda: re.search(r"http://\S+/login/once\S+", log.read_text()),
            seconds=90,
            what="the demo shows its link",
        )
        with httpx.Client(follow_redirects=False, timeout=60) as browser:
            answer = redeem(browser, link[0])
            assert answer.headers["location"] == "/runs/demo-1"
            session = browser.get(f"http://127.0.0.1:{port}/api/v1/session").json()
            assert (session["username"], session["role"]) == ("demo", "admin")
        with httpx.Client(timeout=60) as stranger:
            assert redeem(stranger, link[0]).status_code == 403
            session = stranger.get(f"http://127.0.0.1:{port}/api/v1/session").json()
            assert session["authenticated"] is False
        command = re.search(r"Further login links: (.+)", log.read_text())
        assert command is not None
        with httpx.Client(timeout=60) as later:
            assert redeem(later, in_a_shell(command[1])).headers["location"] == "/"
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0
    wait_until(lambda: not living(tmp_path), seconds=60, what="nothing lives")
