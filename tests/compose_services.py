"""Run services of docker-compose.yml as processes of this machine, without Docker.

Each service gets the environment, command and user of its container, and a temporary folder of its
own. The names and ports of the containers' network, and the paths of volumes, are replaced.
"""

import os
import re
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

from tests import processes
from tests.image_builder import Image

NAMED: Final = re.compile(r"\$\{(\w+)(?:(:?[-?])([^${}]*))?\}")
# The nodes share this machine's ports, so Ray takes free ones.
FREE_PORTS: Final = ("--min-worker-port=0", "--max-worker-port=0")


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with compose's ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}``.

    A default without the colon is for an unset variable, not for an empty one.

    Raises:
        LookupError: With the message, if a required variable is missing or empty.
    """

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        given = variables.get(name, "")
        if kind == "-" and name in variables:
            return given
        if not given and kind == ":?":
            raise LookupError(f"{name}: {rest}")
        return given or (rest if kind in {":-", "-"} else "")

    before = ""
    while before != text:  # a default may contain variables: the innermost first
        before, text = text, NAMED.sub(value, text)
    return text


class ComposeServices:
    """Services of a compose file, as processes.

    Args:
        compose: Path of docker-compose.yml.
        images: Built images by name.
        variables: Variables of `.env`.
        replaced: Texts of commands and environments with their value on this machine.
        of_files: Variables of `.env.platform`.
        folder: Parent of logs and temporary folders; short, as sockets are below it.
    """

    def __init__(
        self,
        compose: Path,
        *,
        images: Mapping[str, Image],
        variables: Mapping[str, str],
        replaced: Mapping[str, str],
        folder: Path,
        of_files: Mapping[str, str] | None = None,
    ) -> None:
        described = yaml.safe_load(compose.read_text())
        self._services: dict[str, Any] = described["services"]
        self._secrets: dict[str, Any] = described.get("secrets", {})
        self._images = images
        self._variables = variables
        self._of_files = of_files or {}
        self._replaced = replaced
        self._folder = folder
        self._started: dict[str, subprocess.Popen[Any]] = {}

    def start(self, service: str, command: list[str] | None = None) -> None:
        """Start a service, or a command in its container, in place of a started one."""
        if service in self._started:
            self._end([self._started.pop(service)])
        with self.log_path(service).open("ab") as log:
            self._started[service] = processes.start(
                self._words(service, command), **self._options(service), stdout=log, stderr=log
            )

    def run(self, service: str, command: list[str] | None = None) -> int:
        """Run a service, or a command in its container, to its end; return the exit status."""
        words = self._words(service, command)
        with self.log_path(service).open("ab") as log:
            return processes.run(words, **self._options(service), stdout=log, stderr=log).returncode

    def is_healthy(self, service: str) -> bool:
        """Return whether the service's health check succeeds."""
        words = self._services[service]["healthcheck"]["test"]
        assert words[0] == "CMD"
        return self.run(service, [self._replace(word) for word in words[1:]]) == 0

    def ended(self) -> dict[str, str]:
        """Return the last log lines of the services that have ended, by name."""
        return {
            name: self.log_path(name).read_text(errors="replace")[-3000:]
            for name, process in self._started.items()
            if process.poll() is not None
        }

    def log_path(self, service: str) -> Path:
        """Return the path of a service's log."""
        return self._folder / f"{service}.log"

    def stop(self) -> None:
        """End all services, and the processes that they left in the background."""
        self._end(self._started.values())
        for left in self._left_behind():
            left.kill()

    @staticmethod
    def _end(started: Collection[subprocess.Popen[Any]]) -> None:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def command(self, service: str) -> list[str]:
        """Return the command of a service."""
        words = [self._replace(word) for word in self._services[service]["command"]]
        if "--" in words:  # before the words of `ray start`
            place = words.index("--") + 1
            words[place:place] = FREE_PORTS
        return words

    def environment(self, service: str) -> dict[str, str]:
        """Return the variables of a service's container."""
        described = self._services[service]
        files = [entry["path"] for entry in described.get("env_file", [])]
        found = dict(self._of_files) if ".env.platform" in files else {}
        for name, value in described.get("environment", {}).items():
            if value is not None:
                found[name] = interpolated(str(value), self._variables)
            elif name in self._variables:
                found[name] = self._variables[name]
        return {name: self._replace(value) for name, value in found.items()}

    def keep_running(self) -> None:
        """Start ended services again that the file says to restart, as Docker does."""
        for service in list(self._started):
            described = self._services[service]
            if described.get("restart") == "unless-stopped" and service in self.ended():
                self.start(service)

    def pid(self, service: str) -> int:
        """Return the id of a service's first process."""
        return self._started[service].pid

    def _image(self, service: str) -> Image:
        return self._images[interpolated(self._services[service]["image"], self._variables)]

    def _words(self, service: str, command: list[str] | None) -> list[str]:
        image = self._image(service)
        return [*image.as_user(), *(command or self.command(service))]

    def _options(self, service: str) -> dict[str, Any]:
        image = self._image(service)
        temporary = self._folder / service
        if not temporary.is_dir():
            temporary.mkdir()
            temporary.chmod(0o1777)
        secrets = temporary / "secrets"
        secrets.mkdir(exist_ok=True)
        for name in self._services[service].get("secrets", []):
            secret = secrets / name
            secret.write_text(self._variables[self._secrets[name]["environment"]])
            secret.chmod(0o444)
        given = {
            name: value.replace("/run/secrets", str(secrets))
            for name, value in self.environment(service).items()
        }
        environment = {**image.environment, **given, "TMPDIR": str(temporary)}
        return {"cwd": image.path(""), "env": environment}

    def _replace(self, text: str) -> str:
        text = interpolated(text, self._variables)
        for theirs, ours in self._replaced.items():
            text = text.replace(theirs, ours)
        return text

    def _left_behind(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                temporary = process.environ().get("TMPDIR", "")
            except psutil.Error:
                continue
            if process.pid != os.getpid() and Path(temporary).parent == self._folder:
                found.append(process)
        return found
