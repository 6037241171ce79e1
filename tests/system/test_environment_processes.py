"""On a server with real fleets, environment code can read no secret of the server."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.environment_user import IS_ROOT, NOBODY, readable_python
from tests.initial_database import copy_database
from tests.server import Server, running_server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.full("starts servers with Ray")]

AS_NOBODY: Final = (
    "setpriv",
    f"--reuid={NOBODY.pw_uid}",
    f"--regid={NOBODY.pw_gid}",
    "--clear-groups",
)
THIEF: Final = '''
import json, os, pathlib, sys
import gymnasium, numpy

def tried(path):
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        return type(error).__name__
    return "read"

class Thief(gymnasium.Env):
    """Environment that tries to read the files and processes of the server."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, var, notes):
        server = int(pathlib.Path(notes, "server").read_text())
        files = [f"{var}/secret_key", f"{var}/run/ray_token", f"{var}/run/services.json"]
        files += [f"{var}/log/web.log", f"/proc/{server}/environ", f"/proc/{os.getppid()}/environ"]
        seen = {path: tried(path) for path in files}
        note = pathlib.Path(notes, f"{os.getpid()}.part")
        note.write_text(json.dumps({"uid": os.getuid(), "seen": seen, "argv": sys.argv}))
        note.rename(note.with_suffix(".json"))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(2, numpy.float32), 1.0, False, True, {}
'''


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that all users may enter, in the run's temporary folder."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    (made / "thieving.py").write_text(THIEF)
    (made / "kept").mkdir()
    (made / "notes").mkdir()
    (made / "notes").chmod(0o1777)
    yield made
    shutil.rmtree(made)


def launch(server: Server, folder: Path) -> None:
    """Launch a fleet whose environments try to read secrets."""
    (folder / "notes" / "server").write_text(str(server.process.pid))
    kwargs = {"var": str(server.var), "notes": str(folder / "notes")}
    config = {
        "environment": {"spec": "module:thieving:Thief", "kwargs": kwargs},
        "fleet": {"num_workers": 1, "envs_per_worker": 2, "inference_batch_size": 1},
    }
    body = {"name": "thief", "kind": "fleet", "config": config, "start": True}
    server.post("/api/v1/runs", body)


def notes_of(folder: Path, *, count: int) -> list[dict[str, Any]]:
    def files() -> list[Path]:
        return sorted((folder / "notes").glob("*.json"))

    wait_until(
        lambda: len(files()) >= count,
        seconds=180,
        what=f"{count} environments have tried to read secrets",
    )
    return [json.loads(path.read_text()) for path in files()]


@pytest.mark.skipif(not IS_ROOT, reason="changes the user of processes")
def test_environments_of_another_user_read_no_secret(
    tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> None:
    more = {
        "PYTHONPATH": str(folder),
        "ROLLDECK_ENVIRONMENTS": "module:thieving:Thief",
        "ROLLDECK_ENVIRONMENT_USER": "nobody",
    }
    prefix = readable_python(folder / "kept")
    with running_server(tmp_path_factory.mktemp("other"), prefix=prefix, **more) as server:
        launch(server, folder)
        notes = notes_of(folder, count=1)

    assert {note["uid"] for note in notes} == {NOBODY.pw_uid}
    assert {answer for note in notes for answer in note["seen"].values()} == {"PermissionError"}


@pytest.mark.skipif(not IS_ROOT, reason="changes the user of processes")
def test_processes_of_the_same_user_read_no_memory_of_fleets(folder: Path) -> None:
    var = folder / "var"
    copy_database(var / "postgres")
    for path in (var, *var.rglob("*")):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    for name in ("tmp", "home"):
        (folder / name).mkdir()
        (folder / name).chmod(0o1777)
    more = {
        "PYTHONPATH": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "HOME": str(folder / "home"),
        "ROLLDECK_ENVIRONMENTS": "module:thieving:Thief",
    }
    prefix = (*readable_python(folder / "kept"), *AS_NOBODY, "--pdeathsig=TERM")
    with running_server(var, prefix=prefix, **more) as server:
        launch(server, folder)
        notes = notes_of(folder, count=1)
        read = {
            name: {read_as_nobody(pid) for pid in server.children(name)}
            for name in ("ray::Manager", "ray::Worker")
        }

    assert read == {"ray::Manager": {"denied"}, "ray::Worker": {"denied"}}
    for note in notes:
        assert note["uid"] == NOBODY.pw_uid
        processes = {path: read for path, read in note["seen"].items() if path.startswith("/proc")}
        assert set(processes.values()) == {"PermissionError"}


def read_as_nobody(pid: int) -> str:
    words = [*AS_NOBODY, "cat", f"/proc/{pid}/environ"]
    done = subprocess.run(words, capture_output=True, check=False)
    return "read" if done.stdout else "denied" if b"denied" in done.stderr else "gone"
