"""Blocks of the how-to and reference pages, run as written against one server with a fleet."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documented import blocks_of, commands_of
from tests.documented_blocks import RUN, Step
from tests.server import ADMIN_TOKEN, ROOT, Server, running_server

pytestmark = [
    pytest.mark.system,
    pytest.mark.full("starts a server, and runs the blocks of eighteen pages on it"),
]
ADDRESS: Final = "http://127.0.0.1:8000"
"""The address on the pages. The server of the tests has another port."""
SECONDS: Final = 120
PYTHON: Final = Path(__file__).with_name("documented_names.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def folder(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder, with the run `demo` of the pages on the server."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n", encoding="utf-8")
    run_text(server, folder, "python", "prepare()")
    return folder


def run_text(server: Server, folder: Path, language: str, text: str) -> str:
    """Run commands or Python, and return the output."""
    is_python = language == "python"
    program = [sys.executable, "-"] if is_python else ["bash", "-euo", "pipefail", "-s"]
    done = subprocess.run(
        program,
        input=(PYTHON + "\nrun(" + repr(text) + ")\n" if is_python else text),
        cwd=folder,
        env=os.environ
        | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "platform", ROOT / "client"))),
            "CURL_HOME": str(folder),
            "ROLLDECK_URL": server.url,
            "ROLLDECK_TOKEN": ADMIN_TOKEN,
        },
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
def test_a_block_works_as_written(server: Server, folder: Path, page: str, step: Step) -> None:
    (block,) = [block for block in blocks_of(page) if step.block in block.text]
    text = "\n".join([step.before, commands_of(block), step.after])

    output = run_text(server, folder, block.language, text.replace(ADDRESS, server.url))

    assert re.search(step.expected, output), output
