"""Other processes of the same user cannot read the secrets of a server process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from config.embedded.parts import Valkey
from config.embedded.postgres import Postgres

PLATFORM = Path(__file__).parents[3] / "platform"
# Root may read everything; without capabilities it is a user like others.
PLAIN = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()
HIDING = {
    "nothing": "",
    "web": (
        "from rollouts.fleet.process import child_environment; "
        "child_environment.hide_this_process()"
    ),
    "a fork": (
        "from rollouts.fleet.process import child_environment; "
        "child_environment.hide_this_process(); os.fork() or wait()"
    ),
}
PROGRAM = """
import os, sys
def wait():
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
{hide}
if "fork" not in {hide!r}:
    wait()
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="procfs")
@pytest.mark.skipif(bool(PLAIN) and shutil.which("setpriv") is None, reason="needs setpriv")
@pytest.mark.parametrize("kind", HIDING)
def test_the_environment_of_a_server_process_is_hidden(kind: str) -> None:
    with subprocess.Popen(
        [*PLAIN, sys.executable, "-c", PROGRAM.format(hide=HIDING[kind])],
        env={"PYTHONPATH": str(PLATFORM), "ROLLDECK_SECRET_KEY": "hidden"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        read = subprocess.run(
            [*PLAIN, "cat", f"/proc/{pid}/environ"], capture_output=True, check=False
        )
        server.communicate(b"", timeout=30)
    assert (b"hidden" in read.stdout) is (kind == "nothing")
    assert (b"denied" in read.stderr) is (kind != "nothing")


def test_database_and_broker_are_started_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("ROLLDECK_SECRET_KEY", "ROLLDECK_BOOTSTRAP_TOKEN", "RAY_AUTH_TOKEN", "DATABASE_URL")
    for name in secrets:
        monkeypatch.setenv(name, "the-secret")
    folders = {"socket_folder": tmp_path, "log_folder": tmp_path}
    monkeypatch.setattr("config.embedded.postgres._initialise", lambda *_: None)
    monkeypatch.setattr("config.embedded.postgres.unprivileged", lambda _: ())
    postgres = Postgres(data_folder=tmp_path / "data", **folders).prepare()
    valkey = Valkey(**folders).prepare()
    for command in (postgres, valkey):
        assert "the-secret" not in command.env.values()
        assert command.env["PATH"] == os.environ["PATH"]
