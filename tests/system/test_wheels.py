"""The wheels install and run outside of the repository, keep data in an upgrade, and uninstall.

Each installation is a virtual environment of its own, with the packages of pip's configured index.
"""

import re
import signal
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from rolldeck import __version__
from tests import processes
from tests.server import ROOT, free_port, wait_until
from tests.wheels import Installation, build, copy_of_tree, empty_installation, pip_wheel

pytestmark = [pytest.mark.system, pytest.mark.release("installs the wheels and their dependencies")]

PREVIOUS: Final = "0.0.9"
CLIENT_BYTES: Final = 60 * 1024**2
BUFFER_BYTES: Final = 250 * 1024**2
DEMO_BYTES: Final = 1300 * 1024**2
OURS: Final = ("config", "web", "runs", "buffer", "rollouts", "frontend", "examples")
REGISTRATION: Final = {
    "wandb_group": "group",
    "wandb_project": "project",
    "batch_size": 2,
    "max_token_len": 64,
    "checkpoint_dir": "checkpoints",
    "save_checkpoint_interval": 0,
    "starting_step": 0,
    "num_steps": 100,
}
OFFER: Final = {"max_token_length": 64, "desired_name": "sums", "weight": 1.0, "group_size": 2}


@pytest.fixture(scope="module")
def previous_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels of the same tree with a lower version."""
    tree = copy_of_tree(tmp_path_factory.mktemp("previous") / "tree")
    init = tree / "client/rolldeck/__init__.py"
    init.write_text(init.read_text().replace(__version__, PREVIOUS))
    return build(tree, tmp_path_factory.mktemp("previous-wheels"))


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return empty_installation(tmp_path / "venv")


def files_of(wheels: Path, name: str) -> tuple[set[str], Message]:
    """Return the files and the metadata of a wheel."""
    (path,) = wheels.glob(f"{name}-*.whl")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        (metadata,) = (one for one in names if one.endswith(".dist-info/METADATA"))
        return names, message_from_bytes(archive.read(metadata))


@contextmanager
def running(
    installation: Installation, *words: str, port: int, **more: str
) -> Iterator[httpx.Client]:
    """Start `rolldeck up` in an empty folder, and yield a client of its routes."""
    variables = {"ROLLDECK_PORT": str(port), "ROLLDECK_WEB_WORKERS": "1", **more}
    log = installation.folder / "up.log"
    begins = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        process = processes.start(
            installation.command("rolldeck", "up", *words),
            cwd=installation.work,
            env=installation.environment(**variables),
            stdout=output,
            stderr=output,
        )

    def is_ready() -> bool:
        text = log.read_bytes()[begins:].decode()
        assert process.poll() is None, text
        return "Ready on" in text

    try:
        wait_until(is_ready, seconds=180, what="the server is ready")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def push(client: httpx.Client, first_token: int) -> None:
    """Push a group of two sequences, as an environment of Atropos."""
    group = {
        "tokens": [[first_token, 2, 3], [first_token, 2, 4]],
        "masks": [[-100, 2, 3], [-100, 2, 4]],
        "scores": [1.0, 0.0],
    }
    client.post("/scored_data", json=group).raise_for_status()


def batch(client: httpx.Client) -> list[Any]:
    """Return the groups of the next batch."""
    answer = client.get("/batch").raise_for_status().json()
    return answer["batch"] or []


def test_each_wheel_has_one_package_and_its_metadata(wheels: Path) -> None:
    for name, version in (("rolldeck", __version__), ("rolldeck_server", __version__)):
        files, metadata = files_of(wheels, name)
        info = f"{name}-{version}.dist-info"

        assert {file.split("/")[0] for file in files} == {name, info}
        assert {f"{name}/py.typed", f"{info}/licenses/LICENSE"} <= files
        assert metadata["Version"] == version
        assert metadata["Requires-Python"] == ">=3.11", "pip refuses an older one"
        assert metadata["License-Expression"] == "MIT"
        assert metadata.get_all("Project-URL")
        links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
        assert all(link.startswith("https://") for link in links), links

    assert (ROOT / "client/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    server, metadata = files_of(wheels, "rolldeck_server")
    assert f"rolldeck=={__version__}" in (metadata.get_all("Requires-Dist") or [])
    assert {"manage.py", "frontend/dist/index.html", "examples/ppo_cartpole.py"} <= {
        file.removeprefix("rolldeck_server/") for file in server
    }
    assert not [file for file in server if "/tests/" in file or file.endswith(".pyc")]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("frontend/dist/index.html", "has no index.html: build the dashboard first"),
        ("build/docs.zip", "does not exist: build the guide first, with `make docs`"),
    ],
)
def test_a_build_without_the_dashboard_or_the_guide_fails(
    tmp_path: Path, missing: str, message: str
) -> None:
    tree = copy_of_tree(tmp_path / "tree")
    (tree / missing).unlink()

    built = pip_wheel(tree, tmp_path / "wheels")

    assert built.returncode != 0
    assert message in built.stdout + built.stderr


def test_the_client_alone_is_small_and_reads_groups(
    installation: Installation, wheels: Path
) -> None:
    installation.install("rolldeck", wheels=wheels)

    assert installation.installed_bytes() <= CLIENT_BYTES
    assert installation.rolldeck("--version").stdout == f"rolldeck {__version__}\n"
    refused = installation.rolldeck("up")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pip install 'rolldeck[server]'" in refused.stderr
    read = (
        "from rolldeck.groups import read_json; import rolldeck.json_groups as j;"
        'g = read_json(b\'{"tokens": [[1, 2]], "masks": [[-100, 2]], "scores": [1.0]}\');'
        "print(j.HAS_SIMDJSON, g.rows['tokens'].values.tolist())"
    )
    assert installation.python(read) == "False [1, 2]"


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that `make lock` resolves with."""
    made = empty_installation(tmp_path_factory.mktemp("uv") / "venv")
    made.pip("install", "--quiet", "-r", str(ROOT / "requirements/lock.in"))
    return made.command("uv")[0]


@pytest.mark.parametrize(
    ("requirement", "python"),
    [
        ("rolldeck[all]", "3.11"),
        ("rolldeck[all]", "3.12"),
        ("rolldeck[all]", "3.13"),
        ("rolldeck[server]", "3.14"),  # pygame, of the extra `recording`, has no wheel for it yet
    ],
)
def test_no_package_needs_a_compiler(uv: str, wheels: Path, requirement: str, python: str) -> None:
    """The packages are resolved for that version of Python; every one has a wheel."""
    resolved = processes.run(
        [
            *(uv, "pip", "compile", "--quiet", "--only-binary", ":all:", "-"),
            *("--python-version", python, "--python-platform", "linux"),
            *("--find-links", str(wheels)),
        ],
        input=requirement,
        capture_output=True,
        text=True,
    )

    assert resolved.returncode == 0, resolved.stderr
    assert {"ray", "torch", "rolldeck-server"} <= set(
        re.findall(r"^([\w.-]+)==", resolved.stdout, re.MULTILINE)
    )


def test_the_buffer_serves_atropos_without_torch_and_keeps_its_data_in_an_upgrade(
    installation: Installation, wheels: Path, previous_wheels: Path
) -> None:
    installation.install(f"rolldeck[buffer]=={PREVIOUS}", wheels=previous_wheels)
    assert installation.installed_bytes() <= BUFFER_BYTES
    assert {"ray", "torch", "gymnasium"}.isdisjoint(found(installation))
    port = free_port()

    with running(installation, "--only", "buffer", port=port) as client:
        client.post("/register", json=REGISTRATION).raise_for_status()
        client.get("/batch").raise_for_status()  # the first request starts the run
        client.post("/register-env", json=OFFER).raise_for_status()
        push(client, 10)
        first = wait_until(lambda: batch(client), seconds=30, what="a batch")
        push(client, 20)
        check_refusals(installation, port)
        assert client.get("/openapi.json").json()["info"]["version"] == PREVIOUS
        assert "Rolldeck" in client.get("/runs").text
        assert "Your trainer" in client.get("/guide/start/trainer.html").text
    assert first[0]["tokens"][0][0] == 10
    assert list(installation.work.iterdir()) == []

    installation.install("rolldeck[buffer]", "--upgrade", wheels=wheels)

    with running(installation, "--only", "buffer", port=port) as client:
        assert client.get("/openapi.json").json()["info"]["version"] == __version__
        second = wait_until(lambda: batch(client), seconds=30, what="a batch")
    assert second[0]["tokens"][0][0] == 20
    check_half_finished(installation, wheels)
    check_newer_data(installation)
    check_uninstalls(installation, wheels)


def check_refusals(installation: Installation, port: int) -> None:
    """Start a second server on the same data, and one on the same port."""
    same_data = installation.rolldeck("up", ROLLDECK_PORT=str(free_port()))
    assert same_data.returncode == 1
    assert "a server already runs on" in same_data.stderr
    other = installation.folder / "other"
    same_port = installation.rolldeck("up", ROLLDECK_VAR=str(other), ROLLDECK_PORT=str(port))
    assert same_port.returncode == 1
    assert "set ROLLDECK_PORT to a free one" in same_port.stderr
    assert not (other / "postgres").exists()
    demo = installation.rolldeck("demo", "--exit", ROLLDECK_VAR=str(other))
    assert demo.returncode == 1
    assert "the demo needs ray and torch and gymnasium" in demo.stderr


def check_half_finished(installation: Installation, wheels: Path) -> None:
    """Remove a required package; the server names it, and writes nothing."""
    installation.pip("uninstall", "--quiet", "--yes", "uvicorn")
    other = installation.folder / "half"
    refused = installation.rolldeck("up", "--only", "buffer", ROLLDECK_VAR=str(other))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "rolldeck: the installation lacks uvicorn; finish the installation: "
        f"pip install 'rolldeck[server]=={__version__}'\n"
    )
    assert not other.exists()
    installation.install("rolldeck[buffer]", wheels=wheels)


def check_newer_data(installation: Installation) -> None:
    """Add a migration as of a newer version, with which this version does not start."""
    source = installation.packages / "rolldeck_server/runs/migrations"
    newer = source / "9999_newer.py"
    last = max(path.stem for path in source.glob("0*.py"))
    newer.write_text(
        "from django.db import migrations\n\n\nclass Migration(migrations.Migration):\n"
        f'    """Nothing."""\n\n    dependencies = [("runs", "{last}")]\n'
    )
    with running(installation, "--only", "buffer", port=free_port()):
        for file in (newer, *source.glob(f"__pycache__/{newer.stem}.*")):
            file.unlink()
    refused = installation.rolldeck("up", "--only", "buffer", ROLLDECK_PORT=str(free_port()))
    assert refused.returncode == 1
    assert "the database was created by another version of Rolldeck" in refused.stderr


def check_uninstalls(installation: Installation, wheels: Path) -> None:
    """Remove each distribution; the other one stays whole."""
    installation.pip("uninstall", "--quiet", "--yes", "rolldeck-server")
    assert not (installation.packages / "rolldeck_server").exists()
    assert installation.rolldeck("--version").stdout == f"rolldeck {__version__}\n"
    installation.install("rolldeck-server", wheels=wheels)
    installation.pip("uninstall", "--quiet", "--yes", "rolldeck")
    record = next(installation.packages.glob("rolldeck_server-*.dist-info/RECORD")).read_text()
    files = [line.split(",")[0] for line in record.splitlines()]
    assert [file for file in files if not (installation.packages / file).exists()] == []
    assert not (installation.packages / "rolldeck").exists()


def found(installation: Installation) -> list[str]:
    """Return which packages of fleets, and which names of the tree, an import finds."""
    names = (*OURS, "ray", "torch", "gymnasium")
    code = (
        "from importlib.util import find_spec;"
        f"print(*[name for name in {names!r} if find_spec(name)])"
    )
    return installation.python(code).split()


def test_the_demo_learns_in_an_empty_folder(installed_server: Installation) -> None:
    installation = installed_server
    if "+cpu" in installation.python("import torch; print(torch.__version__)"):
        assert installation.installed_bytes() <= DEMO_BYTES
    assert found(installation) == ["ray", "torch", "gymnasium"]
    manager = installation.python("from rolldeck_server import RolloutManager as M; print(M)")
    assert manager.strip() == "<class 'rollouts.fleet.groups.rollout_manager.RolloutManager'>"

    shown = installation.rolldeck("demo", "--exit", ROLLDECK_PORT=str(free_port()))

    assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr[-1000:]
    assert "Learnt " in shown.stdout
    data = installation.folder / "home/.local/share/rolldeck"
    assert f"Data folder: {data}" in shown.stdout
    assert list(installation.work.iterdir()) == []
