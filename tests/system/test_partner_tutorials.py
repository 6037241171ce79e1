"""The tutorials of TRL and Atropos, typed as printed, from wheels and the partners' packages.

Only the ports differ from the pages, and settings of pip name the wheels and a build of torch. Each
test prints the seconds of its commands; they include the installations.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest

from examples import tiny_checkpoint
from rolldeck.http import Call, Connection
from tests.documented import Block, blocks_of
from tests.server import ROOT, free_port, wait_until
from tests.terminals import Reader, reader
from tests.wheels import TORCH, Installation, empty_installation

pytestmark = [pytest.mark.system, pytest.mark.partner]

SECONDS: Final = 900
RUNNING: Final = {
    "rolldeck up": "Ready on",
    "rolldeck inference": r"http://\S+/v1",
    "my_trainer.py": "registered",
    "atropos_env.py serve": "health_check=",
    "my_environment.py serve": "health_check=",
}
"""Commands that continue to run, and the output after which a reader goes on."""
TOKEN: Final = "a-token-for-this-example"
STAND_INS: Final = ROOT / "tests/stand_ins"
Show = Callable[[str], None]


class Following:
    """A reader with an activated environment, an empty folder and home, and two free ports."""

    def __init__(self, installation: Installation, wheels: Path, folder: Path) -> None:
        self.port, inference_port = free_port(), free_port()
        self.ports = {":8000": f":{self.port}", "8001": str(inference_port)}
        constraints = folder / "constraints.txt"
        constraints.write_text(f"{TORCH}\n", encoding="utf-8")
        folders = f"{os.environ.get('PIP_FIND_LINKS', '')} {wheels}"
        self.environment = installation.environment(
            PIP_FIND_LINKS=folders.strip(),
            PIP_CONSTRAINT=str(constraints),
            PIP_NO_COMPILE="1",
            PIP_QUIET="1",
            HOME=str(folder / "home"),
            ROLLDECK_PORT=str(self.port),
            ROLLDECK_URL=f"http://127.0.0.1:{self.port}",
            PYTHONUNBUFFERED="1",
        )
        self.folder = folder / "work"
        for made in (self.folder, folder / "home"):
            made.mkdir()

    def reader(self) -> AbstractContextManager[Reader]:
        return reader(self.folder, self.environment)

    def blocks(self, page: str, section: str) -> list[Block]:
        """Return the blocks of a section with the ports of this test."""
        blocks = blocks_of(page, section=section)
        for printed, port in self.ports.items():
            blocks = [block._replace(text=block.text.replace(printed, port)) for block in blocks]
        return blocks

    def get(self, path: str, token: str | None) -> Any:
        with Connection(f"http://127.0.0.1:{self.port}", token) as connection:
            return connection.json(Call(method="GET", path=path))


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Return a function that prints a text although pytest captures the output."""

    def write(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return write


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment as on the page of the installation; the first tutorial installs Rolldeck."""
    return empty_installation(tmp_path_factory.mktemp("reader") / "rolldeck-env")


@pytest.fixture
def following(installation: Installation, wheels: Path, tmp_path: Path) -> Following:
    return Following(installation, wheels, tmp_path)


def metric(following: Following, run: str, token: str, name: str) -> list[float]:
    """Return the values of a metric of a run, by step."""
    path = f"/api/v1/runs/{run}/metrics?names={name}&limit=1000"
    points = following.get(path, token)["results"]
    return [point["value"] for point in sorted(points, key=lambda point: point["step"])]


def test_trl_trains_on_a_run(following: Following, show: Show) -> None:
    page, section = "howto/trl.md", "Try it"
    with following.reader() as reader:
        reader.follow(following.blocks(page, section), running=RUNNING, seconds=SECONDS)
        run = following.get("/api/v1/runs/words", TOKEN)
        scores = metric(following, "words", TOKEN, "reward")
    show(reader.report(f"{page}, {section}"))

    assert run["policy_step"] == 100
    assert (following.folder / "trl-output/model.safetensors").is_file()
    assert sum(scores[-20:]) > sum(scores[:20]), scores


def test_an_atropos_environment_generates_with_the_inference_server(
    following: Following, show: Show
) -> None:
    page, section = "howto/atropos.md", "Generate here too"
    with following.reader() as reader:
        reader.follow(following.blocks(page, section), running=RUNNING, seconds=SECONDS)
        # A job completes the run once its queue is empty.
        wait_until(
            lambda: following.get("/api/v1/runs/my-run", TOKEN)["status"] == "completed",
            seconds=60,
            what="the run is completed",
        )
        run = following.get("/api/v1/runs/my-run", TOKEN)
        scores = metric(following, "my-run", TOKEN, "reward_mean")
    show(reader.report(f"{page}, {section}"))

    assert run["policy_step"] == 31
    assert sum(scores[-5:]) > sum(scores[:5]) + 0.5, scores


def test_an_atropos_environment_and_trainer_use_the_buffer(
    wheels: Path, tmp_path: Path, show: Show
) -> None:
    """The reader has an environment and a trainer of Atropos, and changes their URLs."""
    following = Following(empty_installation(tmp_path / "atropos-env"), wheels, tmp_path)
    page = "howto/atropos.md"
    tiny_checkpoint.write(following.folder / "tokenizer")
    for name in ("my_environment.py", "my_trainer.py"):
        shutil.copy(STAND_INS / name, following.folder / name)
    url = following.environment["ROLLDECK_URL"]
    following.environment |= {"ROLLDECK_BOOTSTRAP_TOKEN": TOKEN, "ROLLDECK_TOKEN": TOKEN}
    with following.reader() as reader:
        reader.open()
        reader.terminals[0].run("pip install atroposlib==0.4.0 requests", seconds=SECONDS)
        one = following.blocks(page, "On one machine")
        reader.follow(one[:1], running=RUNNING, seconds=SECONDS)
        reader.open()
        reader.terminals[-1].start(f"python my_trainer.py {url}", "registered", seconds=60)
        reader.follow(one[1:], running=RUNNING, seconds=SECONDS)
        batches = following.folder / "batches.jsonl"
        wait_until(batches.exists, seconds=120, what="a batch of the stock environment")
        reader.follow(
            following.blocks(page, "Several runs on one server"), running=RUNNING, seconds=SECONDS
        )
    show(reader.report(f"{page}, on one machine"))

    batch = json.loads(batches.read_text(encoding="utf-8").splitlines()[0])
    assert sum(len(group["tokens"]) for group in batch) == 16
