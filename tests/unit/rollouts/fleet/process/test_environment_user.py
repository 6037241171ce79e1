"""Environment code runs as the user that an administrator has named, who can read no secret."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rollouts.fleet.process import child_environment
from rollouts.fleet.process.child_environment import InvalidEnvironmentUser
from rollouts.fleet.process.private_folder import UnsafeFolder
from tests.environment_user import IS_ROOT, NOBODY, readable_python

ROOT: Final = Path(__file__).parents[5]
as_root = pytest.mark.skipif(not IS_ROOT, reason="changes the user of processes")
SPY: Final = """
import json, os, pathlib, tempfile
import gymnasium, numpy

def tried(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"

def note(kind):
    parent = os.getppid()
    home = pathlib.Path.home()
    files = {
        "secret": pathlib.Path(os.environ["SECRET"]).read_bytes,
        "environ": pathlib.Path(f"/proc/{parent}/environ").read_bytes,
        "memory": lambda: os.open(f"/proc/{parent}/mem", os.O_RDONLY),
        "home": (home / f"{os.getpid()}.txt").touch,
        "temporary": lambda: tempfile.NamedTemporaryFile().close(),
    }
    seen = {name: tried(action) for name, action in files.items()}
    seen |= {"ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()]}
    seen |= {"names": [os.environ["USER"], os.environ["LOGNAME"]]}
    target = pathlib.Path(os.environ["NOTES"], f"{kind}.json")
    target.write_text(json.dumps(seen))

class Spy(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind, render_mode=None):
        note(kind)
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        return numpy.ones(2, numpy.float32), 1.0, True, False, {}

    def render(self):
        return numpy.zeros((16, 16, 3), numpy.uint8)

def reward(response, **_):
    note("reward")
    return 1.0
"""
PROGRAM: Final = """
import json, sys, time
import numpy as np
from rolldeck.operator_requests import RecordingCommand
from rollouts.fleet.gateway.probes import run_probe
from rollouts.fleet.probe.messages import ProbeRequest
from rollouts.fleet.rewards.functions import Answered
from rollouts.fleet.rewards.pool import RewardWorker
from rollouts.fleet.steps.env_messages import Began, Recorded, Stepped
from rollouts.fleet.steps.env_worker import EnvWorker
from rollouts.fleet.steps.recordings import Recordings
from rollouts.tasks.rules.dataset_config import RewardConfig
from runs.config.rules.sections import EnvironmentConfig

SPEC = "module:spying:Spy"
sent = []

class Api:
    def update_recording(self, recording_id, update):
        sent.append(update)

environment = EnvironmentConfig(spec=SPEC, kwargs={"kind": "env"})
worker = EnvWorker(environment, slots=range(1), base_seed=1)
worker.start()
left = []

def until(kind):
    while True:
        while not left:
            left.extend(worker.receive())
        message = left.pop(0)
        if isinstance(message, kind):
            return message

def record(slot, request_id, video):
    worker.record(slot, request_id, video)
    return True

until(Began)
recordings = Recordings(worker=0, slots=1, api=Api())
recordings.add(RecordingCommand(id="a", worker=None, slot=None))
recordings.assign(record, time.monotonic())
recordings.turn()
result = {"observation": [], "recordings": [], "pid": worker.pid}
recorded = None
for _ in range(9):
    worker.step(np.array([0]), np.zeros(1, np.int64))
    while True:
        while not left:
            left.extend(worker.receive())
        message = left.pop(0)
        if isinstance(message, Recorded):
            recorded = message
        if isinstance(message, Stepped):
            break
    result["observation"] = worker.observation(0).tolist()
    if recorded:
        break
recordings.finished(0, recorded, 3)
recordings.turn()
result["recordings"] = [[one.state, one.reason, len(one.content)] for one in sent]
rewards = RewardWorker({0: RewardConfig(kind="module:spying:reward")})
result["reward"] = rewards.score(0, Answered("p", "r", "a", {}))
rewards.kill()
request = ProbeRequest(kind="environment", spec=SPEC, kwargs={"kind": "probe"})
outcome = run_probe(request, seconds=60)
result["probe"] = outcome.trouble
worker.close()
print(json.dumps(result))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that all users may enter, with one like /tmp for their files."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    for name in ("tmp", "notes"):
        (made / name).mkdir()
        (made / name).chmod(0o1777)
    (made / "kept").mkdir()
    (made / "spying.py").write_text(SPY)
    yield made
    shutil.rmtree(made)


def run_as(user: str, folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Run environment code of every kind; return the program's result and the code's notes."""
    secret = folder / "secret_key"
    secret.write_text("a secret")
    secret.chmod(0o600)
    paths = (str(folder), str(ROOT), str(ROOT / "platform"), str(ROOT / "client"))
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(Path.home()),
        "USER": "root",
        "LOGNAME": "root",
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": str(folder / "tmp"),
        "DJANGO_SETTINGS_MODULE": "config.settings.test",
        "ROLLDECK_ENVIRONMENTS": "module:spying:Spy",
        "ROLLDECK_REWARDS": "module:spying:reward",
        "ROLLDECK_ENVIRONMENT_VARIABLES": "SECRET,NOTES",
        "ROLLDECK_ENVIRONMENT_USER": user,
        "SECRET": str(secret),
        "NOTES": str(folder / "notes"),
    }
    done = subprocess.run(
        [*readable_python(folder / "kept"), sys.executable, "-c", PROGRAM],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().rpartition("\n")[2])
    notes = {path.stem: json.loads(path.read_text()) for path in (folder / "notes").iterdir()}
    return result, notes


@as_root
def test_environment_code_of_every_kind_runs_as_the_named_user(folder: Path) -> None:
    result, notes = run_as("nobody", folder)

    assert set(notes) == {"env", "reward", "probe"}
    for kind, seen in notes.items():
        uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
        groups = os.getgrouplist("nobody", gid)
        assert seen["ids"] == [uid, uid, uid, gid, gid, gid, *groups], kind
        assert seen["names"] == ["nobody", "nobody"]
        denied = [seen[name] for name in ("secret", "environ", "memory")]
        assert denied == ["PermissionError"] * 3, kind
        assert (seen["home"], seen["temporary"]) == ("done", "done"), kind
    assert result["observation"] == [1.0, 1.0] or result["observation"] == [0.0, 0.0]
    assert (result["reward"], result["probe"]) == (1.0, "")
    (_, began), (_, ended) = (None, result["recordings"][0]), (None, result["recordings"][-1])
    assert (began[0], ended[:2]) == ("recording", ["ready", ""])
    assert ended[2] > 0


@as_root
def test_without_the_setting_environment_code_can_read_secrets(folder: Path) -> None:
    _, notes = run_as("", folder)

    for kind, seen in notes.items():
        assert seen["ids"][0] == os.getuid(), kind
        assert [seen[name] for name in ("secret", "environ", "memory")] == ["done"] * 3, kind


OWN_NAME: Final = pwd.getpwuid(os.geteuid()).pw_name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-such-user", "this machine has no such user"),
        ("65534", "this machine has no such user"),
        ("nobody:nogroup", "this machine has no such user"),
        ("root", "which is root"),
        (OWN_NAME, "name another user"),
    ],
)
def test_a_user_that_cannot_run_environment_code_is_refused(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_USER", f" {name} ")

    with pytest.raises(InvalidEnvironmentUser) as refused:
        child_environment.environment_user()

    assert str(refused.value).startswith(f"ROLLDECK_ENVIRONMENT_USER is {name!r}, ")
    assert reason in str(refused.value)


def test_a_server_without_the_right_to_switch_users_is_refused() -> None:
    plain = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if IS_ROOT else ()
    program = (
        "from rollouts.fleet.process import child_environment; child_environment.environment_user()"
    )
    done = subprocess.run(
        [*plain, sys.executable, "-c", program],
        env={"ROLLDECK_ENVIRONMENT_USER": "nobody", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "has no right to start processes as another user" in done.stderr
    assert "CAP_SETGID, CAP_SETUID" in done.stderr


def test_no_name_means_the_user_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "  "):
        monkeypatch.setenv("ROLLDECK_ENVIRONMENT_USER", name)
        assert child_environment.environment_user() is None
        assert child_environment.popen_options() == {}
        assert child_environment.with_user({"HOME": "/a"}) == {"HOME": "/a"}


@as_root
@pytest.mark.parametrize("prepared", ["link", "foreign", "open"])
def test_a_folder_that_another_user_has_prepared_is_not_used_for_recordings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, prepared: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_USER", "nobody")
    user = child_environment.environment_user()
    assert user is not None
    root = user.recordings_root()
    assert stat.S_IMODE(root.stat().st_mode) == 0o711
    made = user.recordings_folder("a")
    assert (made.stat().st_uid, made.stat().st_gid) == (0, NOBODY.pw_gid)
    shutil.rmtree(root)
    if prepared == "link":
        root.symlink_to(folder)
    else:
        root.mkdir()
        root.chmod(0o777 if prepared == "open" else 0o755)
        os.chown(root, NOBODY.pw_uid if prepared == "foreign" else 0, -1)

    with pytest.raises(UnsafeFolder, match="another user can change it"):
        user.recordings_root()
