"""Install the peers from PyPI, each in a separate virtual environment, and run them.

The environments are in `benchmarks/.venv-peers`; they are created on demand and kept. A peer that
cannot be installed here is reported as absent, without a substitute.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.rolldeck_server import AtroposApi

FOLDER: Final = Path(__file__).with_name(".venv-peers")
INSTALL_SECONDS: Final = 900
# Like its own `run-api`, but on the loopback interface and without access logs.
ATROPOS: Final = (
    "import uvicorn; from atroposlib.api import app; "
    "uvicorn.run(app, host='127.0.0.1', port={port}, log_level='error')"
)


class PeerMissing(Exception):
    """A peer could not be installed; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A peer's installation.

    Attributes:
        name: Name of its folder.
        steps: Arguments of `pip install`, step by step.
        check: Python code that fails if the peer is unusable.
    """

    name: str
    steps: tuple[tuple[str, ...], ...]
    check: str

    def python(self) -> Path:
        """Return the interpreter of its environment; creates the environment if missing.

        Raises:
            PeerMissing: If it cannot be installed or used.
        """
        folder = FOLDER / self.name
        python = folder / "bin" / "python"
        done = folder / ".installed"
        if not done.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            self._run([sys.executable, "-m", "venv", str(folder)])
            for step in self.steps:
                self._run([str(python), "-m", "pip", "install", "--quiet", *step])
            self._run([str(python), "-c", self.check])
            done.touch()
        return python

    def _run(self, command: list[str]) -> None:
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise PeerMissing(f"{self.name}: {command[-1]} took over {error.timeout} s") from error
        if ran.returncode != 0:
            reason = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
            raise PeerMissing(f"{self.name}: {' '.join(command[-2:])}: {' '.join(reason)}")


# Its dependencies are large (transformers, wandb, polars, …); its server needs only these.
ATROPOSLIB: Final = Peer(
    name="atropos",
    steps=(("--no-deps", "atroposlib==0.4.0"), ("fastapi", "uvicorn[standard]", "pydantic")),
    check="import atroposlib.api",
)
# The Ray version of the fleets.
RLLIB: Final = Peer(
    name="rllib",
    steps=(("ray[rllib]==2.60.0", "torch==2.13.*"),),
    check="import ray.rllib, torch",
)
REVERB: Final = Peer(
    name="reverb",
    steps=(("dm-reverb==0.14.0", "tensorflow-cpu~=2.14.0"),),
    check="import reverb",
)
HUGGING_FACE: Final = Peer(
    name="hf",
    steps=(("torch==2.13.*", "transformers==5.23.*"),),
    check="import torch, transformers",
)


@contextlib.contextmanager
def running_atropos() -> Iterator[AtroposApi]:
    """Run the stock Atropos server, a single process with all data in memory.

    Raises:
        PeerMissing: If it cannot be installed.
    """
    python = ATROPOSLIB.python()
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    folder = Path(tempfile.mkdtemp(prefix="rolldeck-peer-"))
    try:
        with processes.server(
            [str(python), "-c", ATROPOS.format(port=port)],
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            log=folder / "atropos.log",
            url=url,
            ready_path="/",
        ) as process:
            yield AtroposApi(url, process.pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Reverb:
    """A process that loads Reverb's server with Reverb's own client."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._answer()

    def seconds(self, verb: str, count: int, clients: int) -> float:
        """Return the seconds for `count` inserts or samples by `clients` threads."""
        if self._process.stdin is None:
            raise ValueError("the process was started without a pipe")
        self._process.stdin.write(f"{verb} {count} {clients}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise processes.NotStarted("Reverb's load has ended")
        return line.strip()


@contextlib.contextmanager
def running_reverb() -> Iterator[Reverb]:
    """Run Reverb's server and a process that loads it.

    Raises:
        PeerMissing: If it cannot be installed.
    """
    python, port = str(REVERB.python()), str(processes.free_port())
    script = str(Path(__file__).with_name("reverb_server.py"))
    with contextlib.ExitStack() as stop:
        for verb in ("serve", "load"):
            process = subprocess.Popen(
                [python, script, verb, port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stop.enter_context(process)
            stop.callback(process.kill)
        yield Reverb(process)
