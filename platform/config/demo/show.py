"""Start a server and a trainer, and show the learning progress."""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.utils import timezone

from config.demo.demos import DemoKind
from config.demo.progress import Progress, ProgressReader, phase
from config.demo.scenario import USER_NAME, Scenario, prepare
from config.demo.view import Frame, View
from config.embedded.children import Child, Command, StartFailed
from config.embedded.folders import Folders
from config.embedded.services import Services, manage_command

SERVER_START_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.5
TRAINER_RESTART_SECONDS: Final = 1.0
# Enough for a loaded machine to start Python and torch, and to find a restarted web process.
EARLY_DEATH_SECONDS: Final = 60.0
EARLY_DEATHS_AT_MOST: Final = 10
READY_TEXT: Final = "Ready on"


class Demo:
    """The server and the trainer as child processes, with their progress in a view.

    Args:
        demo: The demo to run.
        view: Target of the output.
        exits: Whether to end once the target is reached or the time limit has passed.
        limit_seconds: Time limit counted from the start; None for the demo's.
        config: A run configuration that replaces the demo's preset.
    """

    def __init__(
        self,
        demo: DemoKind,
        view: View,
        *,
        exits: bool,
        limit_seconds: float | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self._demo = demo
        self._view = view
        self._exits = exits
        self._limit_seconds = demo.limit_seconds if limit_seconds is None else limit_seconds
        self._config = config
        self._folders = Folders(settings.ROLLDECK_VAR)
        self._began_at = time.monotonic()
        self._children: list[Child] = []
        self._environment: dict[str, str] = {}

    def run(self) -> str:
        """Return the missing part of the target, empty if it is reached; only with `exits`.

        Raises:
            StartFailed: If the server does not start or ends, or the trainer keeps failing.
            InvalidRunConfig: If the configuration is invalid.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        self._folders.create()
        try:
            return self._watch(*self._start())
        finally:
            self._stop()

    def _start(self) -> tuple[Child, Scenario]:
        server = self._child("server", "manage.py", "up", stop_seconds=20.0)
        self._wait_for(server)
        services = Services.from_file(self._folders.services)
        services.adopt()
        self._environment = services.child_environment(
            base_folder=settings.BASE_DIR, var=settings.ROLLDECK_VAR
        )
        scenario = self._prepare()
        self._view.print_line(f"Run {scenario.run_name} is launched; starting its trainer")
        return server, scenario

    def _prepare(self) -> Scenario:
        preset = "" if self._config else self._demo.preset
        return prepare(preset=preset, config=self._config, now=timezone.now())

    def _watch(self, server: Child, scenario: Scenario) -> str:
        reader = ProgressReader(scenario.run_id, self._demo.learning(scenario.run_id))
        trainer = _Trainer(self._child, self._demo.trainer, scenario)
        report = _Report(self._view, limit_seconds=self._limit_seconds)
        url = settings.ROLLDECK_PUBLIC_URL + scenario.login_path
        with self._view as view:
            view.print_line(f"Further login links: {manage_command('login_link', USER_NAME)}")
            while True:
                if server.exit_code is not None:
                    raise StartFailed(f"the server has ended:\n{server.last_lines()}")
                trainer.keep_running()
                progress = reader.read(now=timezone.now())
                if progress is not None:
                    elapsed = time.monotonic() - self._began_at
                    view.show(
                        Frame(
                            title=self._demo.title,
                            phase=phase(progress, trainer_exit_code=trainer.exit_code),
                            elapsed_seconds=elapsed,
                            progress=progress,
                            url=url,
                        )
                    )
                    report.check(progress, elapsed)
                if self._exits and report.missing is not None:
                    return report.missing
                time.sleep(POLL_SECONDS)

    def _wait_for(self, server: Child) -> None:
        """Show the server's own lines until it is ready."""
        deadline = time.monotonic() + SERVER_START_SECONDS
        shown = 0
        while True:
            ended = server.exit_code is not None
            lines = server.logged().splitlines()
            for line in lines[shown:]:
                self._view.print_line(line)
                if line.startswith(READY_TEXT):
                    return
            shown = len(lines)
            if ended or time.monotonic() > deadline:
                raise StartFailed("the server did not start; see its output above")
            time.sleep(0.1)

    def _child(self, name: str, *words: str, stop_seconds: float = 5.0, **more: str) -> Child:
        command = Command(
            name=name,
            argv=(sys.executable, *words),
            env=(self._environment or dict(os.environ)) | more,
            stop_seconds=stop_seconds,
            death_signal=signal.SIGTERM,
        )
        child = Child(command, log_folder=self._folders.log)
        self._children.append(child)
        return child

    def _stop(self) -> None:
        # A second Ctrl-C must not leave some processes running.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._view.print_line("Stopping …")
        for child in reversed(self._children):
            child.stop()


class _Trainer:
    """The example trainer; restarted from its last checkpoint if it fails.

    Raises:
        StartFailed: From `keep_running`, after repeated failures within a minute of the start.
    """

    def __init__(self, child: Callable[..., Child], file: str, scenario: Scenario) -> None:
        self._start = child
        self._file = file
        self._scenario = scenario
        self._again_at: float | None = None
        self._early_deaths = 0
        self._child = self._begin()

    @property
    def exit_code(self) -> int | None:
        """Exit code of a failed trainer; None while it runs or after a regular end."""
        return self._child.exit_code or None

    def keep_running(self) -> None:
        """Restart a failed trainer after :data:`TRAINER_RESTART_SECONDS`."""
        if self.exit_code is None:
            return
        now = time.monotonic()
        if self._again_at is None:
            self._again_at = now + TRAINER_RESTART_SECONDS
            self._count_death(lived_seconds=now - self._child.started_at)
        elif now >= self._again_at:
            self._again_at = None
            self._child = self._begin("--resume")

    def _count_death(self, *, lived_seconds: float) -> None:
        is_early = lived_seconds < EARLY_DEATH_SECONDS
        self._early_deaths = self._early_deaths + 1 if is_early else 0
        if self._early_deaths >= EARLY_DEATHS_AT_MOST:
            raise StartFailed(
                f"the trainer failed {self._early_deaths} times:\n{self._child.last_lines()}"
            )

    def _begin(self, *words: str) -> Child:
        return self._start(
            "trainer",
            str(settings.BASE_DIR / "examples" / self._file),
            *words,
            ROLLDECK_URL=settings.ROLLDECK_PUBLIC_URL,
            ROLLDECK_RUN=self._scenario.run_name,
            # Not on the command line, which every user of the machine can read.
            ROLLDECK_TOKEN=self._scenario.trainer_token,
        )


class _Report:
    """Reporter of each event once, and of the reached or missed target."""

    def __init__(self, view: View, *, limit_seconds: float) -> None:
        self._view = view
        self._limit_seconds = limit_seconds
        self._printed = 0
        self.missing: str | None = None
        """Empty once the target is reached; the missing part once the time limit has passed."""

    def check(self, progress: Progress, elapsed_seconds: float) -> None:
        """Write the new events."""
        after = f"{elapsed_seconds:.1f} seconds after the command"
        for line in progress.milestones[self._printed :]:
            self._view.print_line(f"{line}, {after}")
        self._printed = max(self._printed, len(progress.milestones))
        if self.missing is not None:
            return
        if progress.has_reached_target:
            self.missing = ""
            self._view.print_line(f"Learnt {after}: {progress.summary}")
        elif elapsed_seconds > self._limit_seconds:
            self.missing = f"{progress.summary} after {self._limit_seconds:g} seconds"
            self._view.print_line(f"Target missed: {self.missing}")
