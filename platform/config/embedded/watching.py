"""Keep a set of children running: wait until each is ready, restart what dies, stop in order."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.embedded.children import Child, Command, StartFailed

POLL_SECONDS: Final = 0.05
FIRST_DELAY_SECONDS: Final = 0.5
MAX_DELAY_SECONDS: Final = 10.0
# A part that has been ready for this long has recovered: its next failure is its first, and a
# first failure is followed by a start at once.
STABLE_SECONDS: Final = 3.0
STOP_SECONDS: Final = 14.0
PR_SET_CHILD_SUBREAPER: Final = 36
MAX_GENERATIONS: Final = 8

Say = Callable[[str], None]


class StopAsked(Exception):
    """Somebody wants the deck to end while it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One server of the deck.

    Attributes:
        name: What terminal lines call it.
        prepare: Makes what the server needs and returns what starts it; called at each start.
        is_ready: Whether a started child does its work.
        start_seconds: How long it may take to be ready.
    """

    name: str
    prepare: Callable[[], Command]
    is_ready: Callable[[Child], bool]
    start_seconds: float = 30.0


class Watched:
    """A part and the child that plays it at the moment."""

    def __init__(self, part: Part, child: Child) -> None:
        self.part = part
        self.child = child
        self.failures = 0
        self.again_at: float | None = None
        self.ready_at: float | None = None
        """Since when this child has been ready."""


def delay_seconds(failures: int) -> float:
    """Return the wait before the next start after so many failures in a row."""
    if failures <= 1:
        return 0.0
    return float(min(FIRST_DELAY_SECONDS * 2 ** (failures - 2), MAX_DELAY_SECONDS))


class Watch:
    """Starts, watches and stops parts. All its methods belong to the main thread."""

    def __init__(self, *, log_folder: Path, say: Say) -> None:
        self._log_folder = log_folder
        self._say = say
        self._watched: list[Watched] = []
        self._stop_asked = threading.Event()
        self._adopts_orphans = False
        self._began_at = time.monotonic()

    def obey_signals(self) -> None:
        """End at SIGTERM, Ctrl-C or when the terminal goes; adopt orphaned grandchildren."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # nohup ignores SIGHUP on purpose.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: self._stop_asked.set())
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._adopts_orphans = True

    def start(self, part: Part) -> None:
        """Start a part without waiting for it."""
        self.continue_or_stop()
        child = Child(part.prepare(), log_folder=self._log_folder)
        self._watched.append(Watched(part, child))

    def wait_until_ready(self, names: Iterable[str]) -> None:
        """Wait for some of the started parts and say so as each becomes ready.

        Raises:
            StartFailed: If one ends before it is ready, or takes too long.
            StopAsked: If the deck is to end.
        """
        pending = [watched for watched in self._watched if watched.part.name in set(names)]
        while pending:
            for watched in list(pending):
                if self._became_ready(watched):
                    pending.remove(watched)
            for watched in self._watched:
                if watched not in pending and watched.ready_at is not None:
                    self._look_after(watched)
            self.continue_or_stop()
            self._stop_asked.wait(POLL_SECONDS if pending else 0)

    def run(self) -> None:
        """Restart what dies, until somebody asks to stop."""
        while not self._stop_asked.wait(POLL_SECONDS):
            self.look_after_all()
            self._reap_orphans()

    def look_after_all(self) -> None:
        """Start again what has ended and is due."""
        for watched in self._watched:
            self._look_after(watched)

    def stop(self, *, order: Sequence[str]) -> None:
        """End every part, one after the other by name, and whatever is left of them."""
        deadline = time.monotonic() + STOP_SECONDS
        for watched in sorted(self._watched, key=lambda each: order.index(each.part.name)):
            watched.child.stop(deadline=deadline)
        self._watched.clear()
        if self._adopts_orphans:
            self._kill_orphans()

    def continue_or_stop(self) -> None:
        """Do nothing, unless somebody asked to stop.

        Raises:
            StopAsked: If so.
        """
        if self._stop_asked.is_set():
            raise StopAsked

    def report_ready(self, name: str, more: str = "") -> None:
        """Say that a part is ready, and when."""
        seconds = time.monotonic() - self._began_at
        self._say(f"  {name:<10} ready after {seconds:4.1f} s{'  ' + more if more else ''}")

    def _became_ready(self, watched: Watched) -> bool:
        child, part = watched.child, watched.part
        # Asked first: a child that just ended is not ready, whatever its socket says.
        exit_code = child.exit_code
        if exit_code is None and part.is_ready(child):
            watched.ready_at = time.monotonic()
            self.report_ready(part.name)
            return True
        if exit_code is not None:
            raise StartFailed(
                f"{part.name} ended at once (exit code {exit_code}); the end of "
                f"{child.log_path}:\n{child.last_lines()}"
            )
        if time.monotonic() - child.started_at > part.start_seconds:
            raise StartFailed(
                f"{part.name} was not ready within {part.start_seconds:g} s; the end of "
                f"{child.log_path}:\n{child.last_lines()}"
            )
        return False

    def _look_after(self, watched: Watched) -> None:
        now = time.monotonic()
        if watched.again_at is not None:
            if now >= watched.again_at:
                self._start_again(watched)
            return
        exit_code = watched.child.exit_code
        if exit_code is None:
            if watched.ready_at is None and watched.part.is_ready(watched.child):
                watched.ready_at = now
            return
        watched.child.stop()  # its own children, if it left any
        if watched.ready_at is not None and now - watched.ready_at >= STABLE_SECONDS:
            watched.failures = 0
        watched.ready_at = None
        watched.failures += 1
        delay = delay_seconds(watched.failures)
        watched.again_at = now + delay
        when = f"in {delay:g} s" if delay else "now"
        self._say(
            f"  {watched.part.name} ended (exit code {exit_code}); starting it again {when}; "
            f"its log is {watched.child.log_path}"
        )
        if not delay:
            self._start_again(watched)

    def _start_again(self, watched: Watched) -> None:
        watched.again_at = None
        try:
            watched.child = Child(watched.part.prepare(), log_folder=self._log_folder)
        except StartFailed as error:
            watched.failures += 1
            watched.again_at = time.monotonic() + delay_seconds(watched.failures)
            self._say(f"  {watched.part.name}: {error}")

    def _kill_orphans(self) -> None:
        """End what children left behind; each may leave orphans in its turn."""
        for _ in range(MAX_GENERATIONS):
            for pid in _children_of_this_process():
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except (ProcessLookupError, ChildProcessError):
                    continue

    def _reap_orphans(self) -> None:
        """Collect dead grandchildren whose own parent died first."""
        known = {watched.child.pid for watched in self._watched}
        for pid in _children_of_this_process() - known:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _children_of_this_process() -> set[int]:
    listing = Path("/proc/self/task", str(os.getpid()), "children")
    if not listing.is_file():
        return set()
    return {int(pid) for pid in listing.read_text(encoding="ascii").split()}
