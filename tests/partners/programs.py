"""Programs that run in the environment of a partner, beside a real server."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import processes
from tests.server import ADMIN_TOKEN, ROOT, Server, environment, wait_until

PARTNERS: Final = ROOT / ".partners"
PACKAGES: Final = (ROOT / "client", ROOT / "platform", ROOT)
SECONDS: Final = 180


class Program:
    """A program with the Python of a partner's environment, and the objects that it has printed."""

    def __init__(self, server: Server, log: Path, *command: str, partner: str) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = processes.start(
                [str(PARTNERS / partner / "bin" / "python"), *command],
                cwd=ROOT,
                env=environment(
                    server.var,
                    server.port,
                    PYTHONPATH=os.pathsep.join(
                        map(str, (ROOT / "client", ROOT / "platform", ROOT))
                    ),
                    ROLLDECK_URL=server.url,
                    ROLLDECK_TOKEN=ADMIN_TOKEN,
                    HF_HUB_OFFLINE="1",
                    OMP_NUM_THREADS="1",
                    TRL_EXPERIMENTAL_SILENCE="1",
                ),
                stdout=out,
                stderr=out,
            )

    def lines(self, field: str) -> list[dict[str, Any]]:
        """Return the printed objects that have a field."""
        texts = [line for line in self.log.read_text().splitlines() if line.startswith('{"')]
        return [found for text in texts if field in (found := json.loads(text))]

    def finish(self) -> None:
        """Wait for the end of a program that succeeds."""
        assert self.process.wait(SECONDS) == 0, self.log.read_text()[-6000:]

    def wait_for(self, field: str, *, count: int = 1) -> dict[str, Any]:
        """Return the newest object with a field once there are `count`."""

        def found() -> list[dict[str, Any]]:
            assert self.process.poll() is None, self.log.read_text()[-6000:]
            return self.lines(field)[count - 1 :]

        return wait_until(found, seconds=SECONDS, what=f"{count} lines with {field}")[-1]

    def wait_for_version(self, server: Server, run: str, step: int) -> None:
        """Wait until a version of the run is published."""

        def is_published() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-6000:]
            rows = server.get(f"/api/v1/runs/{run}/weights")["results"]
            return any(row["step"] == step for row in rows)

        wait_until(is_published, seconds=SECONDS, what=f"version {step}")


@contextmanager
def program(server: Server, log: Path, *command: str, partner: str = "trl") -> Iterator[Program]:
    """Start a program; end it with the test."""
    started = Program(server, log, *command, partner=partner)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
