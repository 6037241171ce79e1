"""The same producers and trainer against the reference server of Atropos, as a control."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.peers import ATROPOS, ATROPOSLIB
from rolldeck.chaos.campaign import Campaign, Fault
from rolldeck.chaos.history import HistoryReader
from rolldeck.chaos.results import Injected, Result, result_of
from rolldeck.chaos.workload import ClientPlan, Role
from tests import processes
from tests.server import free_port, wait_until

ROLES: Final[tuple[Role, ...]] = ("json", "list", "keyless", "atropos")
NAME: Final = "control"
SERVER: Final = "atroposlib"
SETTLED_SECONDS: Final = 3.0


class ReferenceServer:
    """The server of atroposlib, one process with its queue in memory."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self._command = [str(ATROPOSLIB.python()), "-c", ATROPOS.format(port=port)]
        self._log = folder / "atropos.log"
        self.url = f"http://127.0.0.1:{port}"
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the server, and wait for its first answer."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with self._log.open("ab") as log:
            self.process = processes.start(self._command, env=own, stdout=log, stderr=log)
        wait_until(
            lambda: httpx.get(f"{self.url}/", timeout=5).is_success,
            seconds=60,
            what="the reference server answers",
        )
        return self.process

    def stop(self) -> None:
        """Stop the server."""
        self.process.kill()
        self.process.wait(30)

    def faults(self) -> list[Fault]:
        """Return the faults of its process."""
        return [
            Fault("kill the server", lambda: self._signalled(signal.SIGKILL), (0, 1)),
            Fault("restart the server", lambda: self._signalled(signal.SIGTERM), (0, 1)),
            Fault("stop the server", lambda: self._signalled(signal.SIGSTOP), (3, 8)),
        ]

    def _signalled(self, number: int) -> Callable[[], None]:
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            return lambda: self.process.send_signal(signal.SIGCONT)

        def heal() -> None:
            self.process.wait(30)
            self.start()

        return heal


class Control(Campaign):
    """A campaign against the reference server, which has neither runs nor a ledger."""

    def __init__(self, url: str, folder: Path, **options: Any) -> None:
        super().__init__(url, None, folder, **options)
        self._watched = {NAME}

    def _plans(self) -> Iterator[ClientPlan]:
        for client, role in enumerate(ROLES, 1):
            yield ClientPlan(
                client=client,
                role=role,
                url=self.proxy.url if client % 2 else self._url,
                run=NAME,
                token="",
                seed=self._seed * 1000 + client,
                interval_seconds=(len(ROLES) - 1) / self._rate,
                folder=str(self._folder),
                groups=self._groups,
                batch_size=self._batch_size,
            )

    def _queue_size(self) -> int:
        return int(httpx.get(f"{self._url}/status", timeout=10).json()["queue_size"])

    def _drain(self, seconds: float) -> bool:
        (self._folder / "stop").touch()
        deadline = time.monotonic() + seconds
        before = -1
        while before != (before := self._queue_size()) and time.monotonic() < deadline:
            time.sleep(SETTLED_SECONDS)
        (self._folder / "end").touch()
        time.sleep(SETTLED_SECONDS)
        return True

    def _result(
        self, injected: list[Injected], is_drained: bool, drain_seconds: float, seconds: float
    ) -> Result:
        del is_drained, drain_seconds
        events = HistoryReader(self._folder).read()
        result = result_of(events, {}, injected, self._seed, seconds)
        accepted = {m for e in events if e.op == "push" and e.outcome == "ok" for m in e.marks}
        served = Counter(m for e in events if e.op == "lease" for m in e.marks)
        result.server = SERVER
        result.violations = []
        result.lost = max(0, len(accepted - served.keys()) - self._queue_size())
        result.doubled = sum(times > 1 for times in served.values())
        return result
