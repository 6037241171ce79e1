"""On a server with real fleets, environment code can read no secret of the server."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.environment_user import IS_ROOT, NOBODY, readable_python
from tests.server import Server, running_server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.full("starts servers with Ray")]

# Root may read everything; without capabilities it is a user like others.
PLAIN: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if IS_ROOT else ()
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


def launch(server: Server, folder: Path) -> dict[str, Any]:
    """Check and launch a fleet; return the configuration."""
    (folder / "notes" / "server").write_text(str(server.process.pid))
    kwargs = {"var": str(server.var), "notes": str(folder / "notes")}
    config = {
        "environment": {"spec": "module:thieving:Thief", "kwargs": kwargs},
        "fleet": {"num_workers": 1, "envs_per_worker": 2, "inference_batch_size": 1},
    }
    body = {"name": "thief", "kind": "fleet", "config": config, "start": True}
    server.post("/api/v1/runs", body)
    return config


def notes_of(folder: Path, *, count: int) -> list[dict[str, Any]]:
    found = wait_until(
        lambda: len(files := list((folder / "notes").glob("*.json"))) >= count and files,
        seconds=180,
        what=f"{count} environments have tried to read secrets",
    )
    return [json.loads(path.read_text()) for path in found]


def wait_for_fragments(server: Server) -> None:
    wait_until(
        lambda: server.get("/api/v1/runs/thief/ledger")["fragments"]["accepted"] > 0,
        seconds=120,
        what="the fleet has pushed fragments",
    )


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
        wait_for_fragments(server)

    assert {note["uid"] for note in notes} == {NOBODY.pw_uid}
    assert {answer for note in notes for answer in note["seen"].values()} == {"PermissionError"}


def test_processes_of_the_same_user_read_no_memory_of_fleets(
    tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> None:
    more = {"PYTHONPATH": str(folder), "ROLLDECK_ENVIRONMENTS": "module:thieving:Thief"}
    with running_server(tmp_path_factory.mktemp("same"), prefix=PLAIN, **more) as server:
        launch(server, folder)
        notes = notes_of(folder, count=1)
        wait_for_fragments(server)
        read = {
            name: read_as_the_user(server.children(name)) for name in ("ray::Manager", "ray::Work")
        }

    assert read == {"ray::Manager": {"denied"}, "ray::Work": {"denied"}}
    for note in notes:
        processes = {path: read for path, read in note["seen"].items() if path.startswith("/proc")}
        assert set(processes.values()) == {"PermissionError"}


def read_as_the_user(pids: list[int]) -> set[str]:
    outcomes = set()
    for pid in pids:
        words = [*PLAIN, "cat", f"/proc/{pid}/environ"]
        done = subprocess.run(words, capture_output=True, check=False)
        outcomes.add("read" if done.stdout else "denied" if b"denied" in done.stderr else "gone")
    return outcomes
