"""Follow a Dockerfile line by line without Docker, each target in a separate folder.

Paths of the image lie below the folder. A new virtual environment is the image's Python, and this
machine supplies the shell and Node. `useradd` creates only the home folder: as root, commands after
`USER` run with the user id of `useradd`, otherwise with that of the test.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
# pip's and npm's own settings of this machine: mirrors, certificates, proxies.
NETWORK: Final = re.compile(r"PIP_\w+|NPM_CONFIG_\w+|SSL_CERT_\w+|(HTTPS?|NO)_PROXY", re.IGNORECASE)
VARIABLE: Final = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, such as ``RUN`` and its arguments."""

    keyword: str
    arguments: str


@dataclass
class Image:
    """A built target: a folder, and what its processes start with."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    """Values of ARG, which only RUN sees."""
    workdir: str = "/"
    users: dict[str, int] = field(default_factory=dict)
    """User ids by name."""
    homes: dict[str, Path] = field(default_factory=dict)
    user: str = ""
    command: list[str] = field(default_factory=list)

    def path(self, inside: str) -> Path:
        """Return the place of a path of the image on this machine."""
        return self.folder / PurePosixPath("/", self.workdir, inside).relative_to("/")

    def as_user(self) -> list[str]:
        """Return the prefix of a command that runs as the image's user."""
        if not self.user or os.geteuid() != 0:
            return []
        uid = self.users[self.user]
        ids = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        return ["setpriv", *ids, "--pdeathsig=TERM", "--"]


def instructions(dockerfile: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile, with continued lines joined."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            keyword, _, arguments = line.strip().partition(" ")
            yield Instruction(keyword.upper(), arguments.strip())


def substituted(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with ``$NAME`` and ``${NAME}`` replaced; unknown names are empty."""
    return VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)


def copy_context(source: Path, target: Path) -> None:
    """Copy a build context without the files that its `.dockerignore` names."""
    patterns = (source / ".dockerignore").read_text().split()

    def left_out(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(source)
        return {name for name in names if is_ignored((inside / name).as_posix(), patterns)}

    shutil.copytree(source, target, ignore=left_out, symlinks=True)


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Return whether a path of the context, whose parents are not ignored, is ignored.

    A pattern matches whole paths, ``**/`` in front of it any folder, and ``*`` no slash.
    """
    for pattern in patterns:
        tail = pattern.removeprefix("**/")
        depth = tail.count("/") + 1
        parts = path.split("/")
        if not pattern.startswith("**/") and len(parts) != depth:
            continue
        if all(map(fnmatch.fnmatchcase, parts[-depth:], tail.split("/"))) and len(parts) >= depth:
            return True
    return False


class ImageBuilder:
    """Builder of the targets of one Dockerfile.

    Args:
        context: Folder with the Dockerfile and the files that it copies.
        folder: Parent of the folders of images; other users can read it.
        python: Interpreter in place of the Python base image; other users can read it.
        arguments: Build arguments, as ``--build-arg`` passes them.
    """

    def __init__(
        self, context: Path, folder: Path, *, python: str, arguments: Mapping[str, str]
    ) -> None:
        self._context = context
        self._folder = folder
        self._python = python
        self._given = dict(arguments)
        self._defaults: dict[str, str] = {}
        self._stages: dict[str, list[Instruction]] = {}
        self._bases: dict[str, str] = {}
        self._built: dict[str, Image] = {}
        self.log: list[str] = []
        """Commands that were run, with the image of each."""
        self._parse((context / "Dockerfile").read_text())

    def build(self, target: str) -> Image:
        """Build a target from its base, as ``docker build --target`` does."""
        if target not in self._built:
            chain = [target]
            while self._bases[chain[0]] in self._stages:
                chain.insert(0, self._bases[chain[0]])
            image = Image(folder=self._folder / target)
            self._start_from(self._bases[chain[0]], image)
            for stage in chain:
                image.arguments = {}
                for one in self._stages[stage]:
                    self._follow(one, image, target)
            self._built[target] = image
        return self._built[target]

    def _parse(self, dockerfile: str) -> None:
        stage = ""
        for one in instructions(dockerfile):
            if one.keyword == "FROM":
                base, _, stage = one.arguments.partition(" AS ")
                self._bases[stage] = substituted(base, self._defaults)
                self._stages[stage] = []
            elif stage:
                self._stages[stage].append(one)
            else:
                assert one.keyword == "ARG", f"{one.keyword} before the first FROM"
                name, _, default = one.arguments.partition("=")
                self._defaults[name] = self._given.get(name, default)

    def _start_from(self, base: str, image: Image) -> None:
        """Prepare the folder in place of a base image of Python or Node."""
        image.folder.mkdir()
        image.environment["HOME"] = str(image.folder)
        if base.startswith("python:"):
            venv = image.folder / "venv"
            subprocess.run([self._python, "-m", "venv", str(venv)], check=True, env=_network())
            image.environment["PATH"] = f"{venv / 'bin'}:{SYSTEM_PATH}"
        else:
            assert base.startswith("node:"), f"unknown base image {base}"
            image.environment["PATH"] = os.environ["PATH"]

    def _follow(self, one: Instruction, image: Image, target: str) -> None:
        follow: dict[str, Callable[[Image, str], None]] = {
            "ARG": self._arg,
            "CMD": lambda image, text: setattr(image, "command", json.loads(text)),
            "COPY": self._copy,
            "ENV": self._env,
            "EXPOSE": lambda *_: None,
            "RUN": self._run,
            "USER": self._user,
            "WORKDIR": self._workdir,
        }
        assert one.keyword in follow, f"{one.keyword} is not supported in {target}"
        follow[one.keyword](image, one.arguments)

    def _arg(self, image: Image, text: str) -> None:
        name, _, default = text.partition("=")
        image.arguments[name] = self._given.get(name, "".join(shlex.split(default)))

    def _env(self, image: Image, text: str) -> None:
        for pair in shlex.split(text):
            name, _, value = pair.partition("=")
            value = substituted(value, {**image.arguments, **image.environment})
            image.environment[name] = str(image.path(value)) if value.startswith("/") else value

    def _user(self, image: Image, text: str) -> None:
        image.user = text
        image.environment["HOME"] = str(image.homes[text])

    def _workdir(self, image: Image, text: str) -> None:
        image.workdir = str(PurePosixPath(image.workdir, text))
        image.path("").mkdir(parents=True, exist_ok=True)

    def _copy(self, image: Image, text: str) -> None:
        words = shlex.split(text)
        source = self._context
        if words[0].startswith("--from="):
            source = self.build(words.pop(0).partition("=")[2]).folder
        *names, last = words
        target = image.path(last)
        for name in names:
            found = sorted(source.glob(name.lstrip("/")))
            assert found, f"COPY {text}: no file matches {name}"
            for path in found:
                if path.is_dir():
                    shutil.copytree(path, target, dirs_exist_ok=True, symlinks=True)
                elif last.endswith("/") or target.is_dir():
                    target.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, target)
                else:
                    shutil.copy2(path, target)

    def _run(self, image: Image, text: str) -> None:
        self.log.append(f"{image.folder.name}: {text}")
        if text.startswith("useradd "):
            self._add_user(image, shlex.split(text))
            return
        # Only an image without a Python uses Node.
        node = [] if image.path("/venv").is_dir() else [str(ROOT / ".ci" / "with-node")]
        done = subprocess.run(
            [*image.as_user(), *node, "/bin/sh", "-c", text],
            cwd=image.path(""),
            env={**_network(), **image.environment, **image.arguments},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {text} failed in {image.folder}:\n{done.stdout[-5000:]}"

    def _add_user(self, image: Image, words: list[str]) -> None:
        options = dict(pairwise(words))
        image.users[words[-1]] = uid = int(options["--uid"])
        home = image.path(options["--home-dir"])
        home.mkdir(parents=True)
        image.homes[words[-1]] = home
        if os.geteuid() == 0:
            os.chown(home, uid, uid)


def _network() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)}
