"""Blocks of the how-to and reference pages, run as written from installed wheels.

One server of the wheels has a fleet; commands and Python are those of the same environment.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documented import blocks_of, commands_of
from tests.documented_blocks import RUN, Step
from tests.server import ADMIN_TOKEN, Server, wait_until
from tests.wheels import Installation

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts a server, and runs the blocks of eighteen pages on it"),
]
ADDRESS: Final = "http://127.0.0.1:8000"
"""The address on the pages. The server of the tests has another port."""
SECONDS: Final = 300
PYTHON: Final = Path(__file__).with_name("documented_names.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server(
    installed_server: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with installed_server.serving(folder / "var", cwd=folder) as server:
        yield server


@pytest.fixture(scope="module")
def folder(
    installed_server: Installation, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The reader's folder, with the run `demo` of the pages on the server."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n", encoding="utf-8")
    run_text(installed_server, server, folder, "python", "prepare()")
    # The cluster is read at the first request, unless a fleet was launched.
    wait_until(lambda: server.get("/api/v1/cluster")["ray"]["nodes"], seconds=60, what="Ray nodes")
    return folder


def run_text(
    installation: Installation, server: Server, folder: Path, language: str, text: str
) -> str:
    """Run commands or Python, and return the output."""
    is_python = language == "python"
    done = subprocess.run(
        [str(installation.programs / "python"), "-"]
        if is_python
        else ["bash", "-euo", "pipefail", "-s"],
        input=(PYTHON + "\nrun(" + repr(text) + ")\n" if is_python else text),
        cwd=folder,
        env=installation.environment(
            CURL_HOME=str(folder),
            ROLLDECK_URL=server.url,
            ROLLDECK_TOKEN=ADMIN_TOKEN,
            ROLLDECK_VAR=str(server.var),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{text}\n{done.stdout}"
    return done.stdout


@pytest.mark.parametrize(
    ("page", "step"),
    [pytest.param(page, step, id=step.block) for page, steps in RUN.items() for step in steps],
)
def test_a_block_works_as_written(
    installed_server: Installation, server: Server, folder: Path, page: str, step: Step
) -> None:
    (block,) = [block for block in blocks_of(page) if step.block in block.text]
    commands = commands_of(block).replace(ADDRESS, server.url)
    for printed, own in step.replaced:
        assert printed in commands
        commands = commands.replace(printed, own)
    text = "\n".join([step.before, commands, step.after])

    output = run_text(installed_server, server, folder, block.language, text)

    assert re.search(step.expected, output), output
