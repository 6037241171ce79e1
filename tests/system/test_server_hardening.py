"""Fleets see none of the platform's secrets, and its servers listen only on loopback."""

import ipaddress
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.server import Server, running_server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.full("starts, loads and kills servers for minutes")]

SPY: Final = '''
import json, os, pathlib
import gymnasium, numpy

class Spy(gymnasium.Env):
    """Environment that records the variables visible to environment code."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, folder):
        seen = dict(os.environ)
        raw = pathlib.Path("/proc/self/environ").read_bytes().decode(errors="replace")
        note = pathlib.Path(folder, str(os.getpid()))
        note.with_suffix(".part").write_text(json.dumps({"seen": seen, "raw": raw}))
        note.with_suffix(".part").rename(note.with_suffix(".json"))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(2, numpy.float32), 1.0, False, True, {}
'''
SECRETS: Final = {
    "ROLLDECK_SECRET_KEY": "the-secret-key-of-this-server-0123456789",
    "ROLLDECK_ALERT_WEBHOOK_SECRET": "the-secret-of-webhooks",
    "ROLLDECK_SMTP_URL": "smtp://user:the-password-of-mail@localhost:25",
    "RAY_AUTH_TOKEN": "c0ffee" * 10,
    "AWS_SECRET_ACCESS_KEY": "the-secret-of-the-object-store",
    "HF_TOKEN": "the-token-of-the-hub",
}
PASSED_ON: Final = {"LAB_LICENCE_SERVER": "licences:1234", "MUJOCO_GL": "egl"}
LISTENING: Final = "0A"


@pytest.fixture(scope="module")
def spies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spies")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, spies: Path) -> Iterator[Server]:
    code = tmp_path_factory.mktemp("code")
    (code / "spying_env.py").write_text(SPY)
    more = {
        "PYTHONPATH": str(code),
        "ROLLDECK_ENVIRONMENTS": "module:spying_env:Spy",
        "ROLLDECK_ENVIRONMENT_VARIABLES": "LAB_LICENCE_SERVER",
        "ROLLDECK_RAY_CPUS": "6",
        **SECRETS,
        **PASSED_ON,
    }
    with running_server(tmp_path_factory.mktemp("hardened"), **more) as server:
        launch(server, "in-processes", spies, envs_in_worker=False)
        launch(server, "in-workers", spies, envs_in_worker=True)
        yield server


def launch(server: Server, name: str, spies: Path, **fleet: Any) -> None:
    folder = spies / name
    folder.mkdir()
    config = {
        "environment": {"spec": "module:spying_env:Spy", "kwargs": {"folder": str(folder)}},
        "fleet": {
            "num_workers": 1,
            "envs_per_worker": 2,
            "envs_per_process": 1,
            "inference_batch_size": 1,
            **fleet,
        },
    }
    server.post("/api/v1/runs", {"name": name, "kind": "fleet", "config": config, "start": True})


def seen(spies: Path, name: str, *, processes: int) -> list[dict[str, Any]]:
    """Return the variables seen by the environments of a run."""
    notes = wait_until(
        lambda: len(files := list((spies / name).glob("*.json"))) >= processes and files,
        seconds=120,
        what=f"the environments of {name} are built",
    )
    return [json.loads(note.read_text()) for note in notes]


def secrets_of(server: Server) -> dict[str, str]:
    """Return all values that fleets must not see."""
    written = json.loads((server.var / "run" / "services.json").read_text())
    servers = {name: written[name] for name in ("DATABASE_URL", "REDIS_URL")}
    token = server.http.headers["Authorization"].partition(" ")[2]
    return {**SECRETS, **servers, "ROLLDECK_BOOTSTRAP_TOKEN": token}


def fleets_processes(server: Server) -> list[int]:
    """Return the processes of the gateway and of Ray with all of their descendants."""
    (head,) = [
        pid
        for pid in server.children("rollouts.fleet.gateway.command")
        if parent(pid) == server.process.pid
    ]
    return [pid for pid in server.children() if head in ancestors(pid)]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        try:
            pid = parent(pid)
        except OSError:
            return


def leaked(text: str, secrets: dict[str, str]) -> set[str]:
    return {name for name, value in secrets.items() if value in text or f"{name}=" in text}


@pytest.mark.parametrize(("name", "processes"), [("in-processes", 2), ("in-workers", 1)])
def test_environment_code_has_no_secret(
    server: Server, spies: Path, name: str, processes: int
) -> None:
    secrets = secrets_of(server)
    for note in seen(spies, name, processes=processes):
        assert leaked(note["raw"], secrets) == set()
        assert leaked(json.dumps(note["seen"]), secrets) == set()
        assert secrets.keys() & note["seen"].keys() == set()
        assert PASSED_ON.items() <= note["seen"].items()


def test_processes_of_environments_have_no_ray_variables(server: Server, spies: Path) -> None:
    for note in seen(spies, "in-processes", processes=2):
        assert [name for name in note["seen"] if name.startswith("RAY_")] == []


def test_no_process_of_ray_holds_a_secret(server: Server, spies: Path) -> None:
    seen(spies, "in-processes", processes=2)
    seen(spies, "in-workers", processes=1)
    secrets, leaks, examined = secrets_of(server), {}, []
    for pid in fleets_processes(server):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:  # the process has ended
            continue
        examined.append(line)
        if names := leaked(variables, secrets):
            leaks[line[:80]] = names

    assert leaks == {}
    for part in ("gcs_server", "raylet", "ray::Manager", "ray::", "env_process"):
        assert any(part in line for line in examined), (part, examined)


def address_of(text: str) -> Any:
    """Return an address from the kernel's tables, which store words of four bytes."""
    size = len(text) // 8
    words = struct.unpack(f">{size}I", bytes.fromhex(text))
    packed = struct.pack(f"={size}I", *words)
    address = ipaddress.ip_address(packed)
    return getattr(address, "ipv4_mapped", None) or address


def listeners(pids: list[int]) -> dict[tuple[str, int], str]:
    """Return the listening sockets of processes from the kernel's tables, with their commands."""
    owners = {}
    for pid in pids:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    owners[target[8:-1]] = line[:100]
        except OSError:
            continue
    listening = {}
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = row.split()
            if words[3] == LISTENING and words[9] in owners:
                where, _, port = words[1].partition(":")
                listening[str(address_of(where)), int(port, 16)] = owners[words[9]]
    return listening


def test_every_server_listens_on_the_loopback_alone(server: Server, spies: Path) -> None:
    seen(spies, "in-processes", processes=2)
    listening = listeners([server.process.pid, *server.children()])
    public = {
        f"{address}:{port}": line
        for (address, port), line in listening.items()
        if not ipaddress.ip_address(address).is_loopback
    }

    assert public == {}
    assert any("config.web" in line for line in listening.values()), listening
    assert any("gcs_server" in line for line in listening.values()), listening
    assert any("raylet" in line for line in listening.values()), listening
    assert any(line.startswith("ray::") for line in listening.values()), listening
    assert not any("postgres" in line or "valkey" in line for line in listening.values())


def test_the_tables_of_the_kernel_are_parsed() -> None:
    with (
        socket.create_server(("", 0)) as everywhere,
        socket.create_server(("127.0.0.1", 0)) as here,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        listening = listeners([os.getpid()])
        for address, server in (("0.0.0.0", everywhere), ("127.0.0.1", here), ("::1", six)):
            assert (address, server.getsockname()[1]) in listening
