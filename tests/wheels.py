"""Build both wheels, and install them into environments outside of the repository."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import processes
from tests.ray_head import SAME_PRIORITY
from tests.server import ADMIN_TOKEN, FOREIGN, ROOT, Server, free_port, serving

PIP: Final = re.compile(r"pip|setuptools|pkg_resources|_distutils_hack|wheel")
TORCH: Final = "torch==2.13.0"
"""A build for CPUs where pip's configuration has one; an open range prefers newer builds."""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with a home folder of its own."""

    folder: Path

    @property
    def packages(self) -> Path:
        """The folder of installed packages."""
        (found,) = (self.folder / "lib").glob("python*/site-packages")
        return found

    @property
    def programs(self) -> Path:
        """The folder of `python` and `rolldeck`."""
        return self.folder / "bin"

    def environment(self, **more: str) -> dict[str, str]:
        foreign = (*FOREIGN, "PYTHONPATH", "VIRTUAL_ENV", "XDG_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        path = os.pathsep.join([str(self.programs), os.environ["PATH"]])
        return own | {"HOME": str(self.folder / "home"), "PATH": path} | more

    def command(self, program: str, *words: str) -> list[str]:
        """Return the command that runs a program of the environment."""
        return [str(self.programs / program), *words]

    def pip(self, *words: str) -> None:
        command = self.command("python", "-m", "pip", *words)
        done = processes.run(command, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def install(self, requirement: str, *more: str, wheels: Path) -> None:
        self.pip("install", "--quiet", "--find-links", str(wheels), requirement, *more)

    def rolldeck(self, *words: str, **more: str) -> "subprocess.CompletedProcess[Any]":
        return processes.run(
            self.command("rolldeck", *words),
            capture_output=True,
            text=True,
            cwd=self.work,
            env=self.environment(**more),
            timeout=500,
        )

    @contextmanager
    def serving(self, var: Path, *, cwd: Path, **more: str) -> Iterator[Server]:
        """Run `rolldeck up` in a folder with an administrator's token."""
        port = free_port()
        var.mkdir(parents=True, exist_ok=True)
        own = self.environment(
            ROLLDECK_VAR=str(var),
            ROLLDECK_PORT=str(port),
            ROLLDECK_BOOTSTRAP_TOKEN=ADMIN_TOKEN,
            ROLLDECK_WEB_WORKERS="1",
            **SAME_PRIORITY,
            **more,
        )
        command = self.command("rolldeck", "up")
        with serving(command, var, port, cwd=cwd, env=own) as server:
            yield server

    @property
    def work(self) -> Path:
        """An empty folder, in which commands run."""
        folder = self.folder / "work"
        folder.mkdir(exist_ok=True)
        return folder

    def python(self, code: str) -> str:
        done = processes.run(
            self.command("python", "-c", code),
            capture_output=True,
            text=True,
            cwd=self.work,
            env=self.environment(),
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout).strip()

    def installed_bytes(self) -> int:
        """Return the size of all packages except pip's own, without bytecode."""
        return sum(
            file.stat().st_size
            for entry in self.packages.iterdir()
            if not PIP.match(entry.name)
            for file in ([entry] if entry.is_file() else entry.rglob("*"))
            if file.is_file() and file.suffix != ".pyc"
        )


def empty_installation(folder: Path) -> Installation:
    """Create a virtual environment without packages, with an empty home folder."""
    made = Installation(folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (folder / "home").mkdir()
    return made


def copy_of_tree(target: Path) -> Path:
    """Copy the files that git knows, the built dashboard and the packed documentation."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in [*filter(None, listed.decode().split("\0")), "build/docs.zip"]:
        source = ROOT / name
        if source.is_file() and not name.startswith(("tests/", "docs/", "benchmarks/")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    shutil.copytree(ROOT / "frontend/dist", target / "frontend/dist")
    return target


def pip_wheel(project: Path, target: Path) -> "subprocess.CompletedProcess[Any]":
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(target)]
    return processes.run([*command, str(project)], capture_output=True, text=True)


def build(tree: Path, target: Path) -> Path:
    for project in (tree / "client", tree):
        built = pip_wheel(project, target)
        assert built.returncode == 0, built.stderr[-3000:]
    return target
