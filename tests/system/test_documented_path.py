"""The path of a new user, run as written from wheels, with one server and one folder."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented import run_page, script_of
from tests.server import ADMIN_TOKEN, Server
from tests.wheels import Installation

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts a server with environments of its own, and trains on three runs"),
]
# The commands of these pages install packages or start servers; the tests of containers, wheels
# and partners do the same.
NOT_RUN = ("start/install.md", "howto/trl.md", "howto/atropos.md")
SECONDS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder, which is empty."""
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(scope="module")
def server(
    installed_server: Installation, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with the variables that the pages set for it."""
    exports = script_of("start/environment.md") + script_of("start/reward.md")
    names = "PYTHONPATH|ROLLDECK_(?:ENVIRONMENTS|DATASETS|REWARDS)"
    variables = dict(re.findall(rf"({names})=(\S+)", exports))
    with installed_server.serving(
        tmp_path_factory.mktemp("server"),
        cwd=folder,
        **{name: value.replace("$PWD", str(folder)) for name, value in variables.items()},
    ) as server:
        yield server


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("start/first-run.md", r"(?s)version 20 from batch 20.*name +my-run\n"),
        ("start/environment.md", r"ready after"),
        ("start/reward.md", r"75 rows for training, 25 for evaluation"),
        ("start/trainer.md", r"share of right answers in the last batch: 0\.[5-9]|1\.0"),
        ("start/bad-run.md", r"(?s)masks.+accepted"),
    ],
)
def test_the_commands_of_a_page_work_in_order(
    installed_server: Installation, server: Server, folder: Path, page: str, expected: str
) -> None:
    output = run_page(
        page,
        folder=folder,
        environment=installed_server.environment(
            ROLLDECK_URL=server.url, ROLLDECK_TOKEN=ADMIN_TOKEN
        ),
        seconds=SECONDS,
    )

    assert re.search(expected, output), output


@pytest.mark.parametrize("page", NOT_RUN)
def test_other_pages_of_the_path_have_no_commands_that_could_run(page: str) -> None:
    assert not re.search(r"(?m)^rolldeck ", script_of(page))
