"""Supervise child processes: wait for readiness, restart failed ones, stop them in order."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.embedded.children import Child, Command, StartFailed

POLL_SECONDS: Final = 0.05
FIRST_DELAY_SECONDS: Final = 0.5
MAX_DELAY_SECONDS: Final = 10.0
# A part that was ready for this long has recovered: its next failure counts as the first, which is
# followed by an immediate restart.
STABLE_SECONDS: Final = 3.0
PR_SET_CHILD_SUBREAPER: Final = 36
MAX_GENERATIONS: Final = 8
FIRST_SPARE_SECONDS: Final = 60.0
"""Time from the start of the deployment to the first spares: its first fleet starts before them."""
SPARE_SECONDS: Final = 5.0
"""Shortest time between the starts of two spares of one name."""

LOG_FOLLOWS: Final = "; end of "
"""Separates the reason of a failed start from the last lines of its log."""

PrintLine = Callable[[str], None]


class StopRequested(Exception):
    """A stop was requested during the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One server of the deployment.

    Attributes:
        name: Name in console lines.
        prepare: Prepares the server's files and returns its command; called at each start.
        is_ready: Returns whether a started child is ready.
        start_seconds: Timeout for the start.
        is_essential: Whether the deployment is useless without it. A failed start of another part
            is reported, and the part is started again like one that has ended.
        spare: Command of a process that waits until a part of this name ends, and takes its place.
            Its last argument is `SPARE`.
    """

    name: str
    prepare: Callable[[], Command]
    is_ready: Callable[[Child], bool]
    start_seconds: float = 30.0
    is_essential: bool = True
    spare: Command | None = None


class WatchedPart:
    """A part and its current child process."""

    def __init__(self, part: Part, child: Child) -> None:
        self.part = part
        self.child = child
        self.failures = 0
        self.again_at: float | None = None
        self.ready_at: float | None = None
        """Time at which this child became ready."""


def delay_seconds(failures: int) -> float:
    """Return the delay before the next start after this number of consecutive failures."""
    if failures <= 1:
        return 0.0
    return float(min(FIRST_DELAY_SECONDS * 2 ** (failures - 2), MAX_DELAY_SECONDS))


class ProcessWatch:
    """Supervisor of a set of parts. All methods must be called on the main thread."""

    def __init__(
        self,
        *,
        log_folder: Path,
        print_line: PrintLine,
        is_hung: Callable[[int], bool] = lambda _: False,
        report_failure: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        """Watch no parts yet.

        Args:
            log_folder: Folder of the parts' logs.
            print_line: Writes one line to the console.
            is_hung: Returns whether a running process must be restarted, by its id.
            report_failure: Called with the name of a part, the reason of its end and its last
                lines.
        """
        self._is_hung = is_hung
        self._report_failure = report_failure
        self._log_folder = log_folder
        self._print = print_line
        self._watched: list[WatchedPart] = []
        self._spares: dict[str, Child] = {}
        """The waiting spare, or the last one that has ended, by name of the part."""
        self._stop_requested = threading.Event()
        self._adopts_orphans = False
        self._began_at = time.monotonic()

    def handle_signals(self) -> None:
        """Stop on SIGTERM, Ctrl-C or a closed terminal; adopt orphaned grandchildren."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # nohup ignores SIGHUP deliberately.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: self._stop_requested.set())
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._adopts_orphans = True

    def start(self, part: Part) -> None:
        """Start a part without waiting for it."""
        self.continue_or_stop()
        child = Child(part.prepare(), log_folder=self._log_folder)
        self._watched.append(WatchedPart(part, child))

    def wait_until_ready(self, names: Iterable[str]) -> None:
        """Wait for some of the started parts and report each as it becomes ready.

        A part that is not essential is waited for until its first failure.

        Raises:
            StartFailed: If an essential part ends before it is ready, or is not ready in time.
            StopRequested: If a stop was requested.
        """
        pending = [watched for watched in self._watched if watched.part.name in set(names)]
        while pending:
            for watched in list(pending):
                if self._is_settled(watched):
                    pending.remove(watched)
            for watched in self._watched:
                if watched not in pending and (watched.ready_at or watched.failures):
                    self._check_child(watched)
            self.continue_or_stop()
            self._stop_requested.wait(POLL_SECONDS if pending else 0)

    def run(self) -> None:
        """Restart failed parts until a stop is requested; reap orphaned grandchildren."""
        while not self._stop_requested.wait(POLL_SECONDS):
            self.check_children()
            known = {watched.child.pid for watched in self._watched}
            known |= {spare.pid for spare in self._spares.values()}
            for pid in _children_of_this_process() - known:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def check_children(self) -> None:
        """Restart the ended parts that are due, start missing spares, and limit all logs."""
        for watched in self._watched:
            self._check_child(watched)
            watched.child.limit_log()
        self._start_spares()

    def stop(self, *, order: Sequence[Collection[str]], meanwhile: Collection[str] = ()) -> None:
        """Stop all parts, then kill left-over processes.

        Args:
            order: Names of parts that are stopped together, group after group.
            meanwhile: Names of parts that are stopped at first and waited for last.
        """
        for spare in self._spares.values():
            spare.kill()
        self._spares.clear()
        independent = self._request_stop(meanwhile)
        for names in order:
            for child, deadline in self._request_stop(names):
                child.wait_or_kill(deadline=deadline)
        for child, deadline in independent:
            child.wait_or_kill(deadline=deadline)
        self._watched.clear()
        # Orphans of the children may leave orphans in turn.
        for _ in range(MAX_GENERATIONS if self._adopts_orphans else 0):
            for pid in _children_of_this_process():
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def continue_or_stop(self) -> None:
        """Raise if a stop was requested.

        Raises:
            StopRequested: If a stop was requested.
        """
        if self._stop_requested.is_set():
            raise StopRequested

    def report_ready(self, name: str, more: str = "") -> None:
        """Report that a part is ready, with the seconds since the start."""
        seconds = time.monotonic() - self._began_at
        self._print(f"  {name:<10} ready after {seconds:4.1f} s{'  ' + more if more else ''}")

    def _request_stop(self, names: Collection[str]) -> list[tuple[Child, float]]:
        """Request the stop of parts; return them with the monotonic times of their deadlines."""
        group = [watched.child for watched in self._watched if watched.part.name in names]
        for child in group:
            child.request_stop()
        began = time.monotonic()
        return [(child, began + child.command.stop_seconds) for child in group]

    def _is_settled(self, watched: WatchedPart) -> bool:
        """Return whether a part has become ready, or has failed and is not essential.

        Raises:
            StartFailed: If an essential part has failed.
        """
        child, part = watched.child, watched.part
        # Checked first: a child that has just ended is not ready, even if its socket answers.
        exit_code = child.exit_code
        if exit_code is None and part.is_ready(child):
            watched.ready_at = time.monotonic()
            self.report_ready(part.name)
            return True
        if exit_code is not None:
            failure = f"failed to start ({_ending(exit_code)})"
        elif time.monotonic() - child.started_at > part.start_seconds:
            failure = f"was not ready within {part.start_seconds:g} s"
        else:
            return False
        reason = f"{part.name} {failure}{LOG_FOLLOWS}{child.log_path}:\n{child.last_lines()}"
        if part.is_essential:
            raise StartFailed(reason)
        self._restart(watched, reason)
        return True

    def _check_child(self, watched: WatchedPart) -> None:
        now = time.monotonic()
        if watched.again_at is not None:
            if now >= watched.again_at:
                self._start_again(watched)
            return
        child, part = watched.child, watched.part
        exit_code = child.exit_code
        if exit_code is not None:
            self._restart(watched, f"{part.name} ended ({_ending(exit_code)})")
            return
        if watched.ready_at is None and part.is_ready(child):
            watched.ready_at = now
        # PostgreSQL may take long to recover, and a restart would begin the recovery again.
        is_starting = watched.ready_at is None and not part.is_essential
        if self._is_hung(child.pid):
            reason = "sends no heartbeats"
        elif is_starting and now - child.started_at > part.start_seconds:
            reason = f"was not ready within {part.start_seconds:g} s"
        else:
            return
        child.kill()
        self._restart(watched, f"{part.name} {reason}")

    def _restart(self, watched: WatchedPart, reason: str) -> None:
        """Start a part again, at once after its first failure and later with a delay."""
        now = time.monotonic()
        watched.child.stop()  # also ends its remaining children
        if watched.ready_at is not None and now - watched.ready_at >= STABLE_SECONDS:
            watched.failures = 0
        watched.ready_at = None
        watched.failures += 1
        delay = delay_seconds(watched.failures)
        watched.again_at = now + delay
        when = f"in {delay:g} s" if delay else "now"
        self._print(f"  {reason}; restarting {when}; log: {watched.child.log_path}")
        summary = reason.partition(LOG_FOLLOWS)[0]
        self._report_failure(watched.part.name, summary, watched.child.last_lines())
        if not delay:
            self._start_again(watched)

    def _start_again(self, watched: WatchedPart) -> None:
        watched.again_at = None
        try:
            command = watched.part.prepare()
            spare = self._spares.pop(watched.part.name, None)
            if spare is not None and spare.take_over(command):
                watched.child = spare
            else:
                watched.child = Child(command, log_folder=self._log_folder)
        except StartFailed as error:
            watched.failures += 1
            watched.again_at = time.monotonic() + delay_seconds(watched.failures)
            self._print(f"  {watched.part.name}: {error}")
            self._report_failure(watched.part.name, str(error), "")

    def _start_spares(self) -> None:
        """Start missing spares of parts that are ready, so that they delay no start of these."""
        now = time.monotonic()
        if now - self._began_at < FIRST_SPARE_SECONDS:
            return
        starting = {watched.part.name for watched in self._watched if watched.ready_at is None}
        for part in [watched.part for watched in self._watched]:
            if part.spare is None or part.name in starting:
                continue
            last = self._spares.get(part.name)
            has_ended = last is not None and last.exit_code is not None
            if last is None or (has_ended and now - last.started_at >= SPARE_SECONDS):
                self._spares[part.name] = Child(part.spare, log_folder=self._log_folder)


def _ending(exit_code: int) -> str:
    """Return an exit code in words; negative ones are signals."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


def _children_of_this_process() -> set[int]:
    listing = Path("/proc/self/task", str(os.getpid()), "children")
    if not listing.is_file():
        return set()
    return {int(pid) for pid in listing.read_text(encoding="ascii").split()}
