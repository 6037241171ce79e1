"""Start a deck, let a policy learn on it, and show how."""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.utils import timezone

from config.demo.progress import TARGET_RETURN, Progress, ProgressReader
from config.demo.scenario import Scenario, prepare
from config.demo.view import Frame, View
from config.embedded.children import Child, Command, StartFailed
from config.embedded.folders import Folders
from config.embedded.services import Services

DECK_STARTS_WITHIN_SECONDS: Final = 120.0
LOOK_EVERY_SECONDS: Final = 0.5
TRAINER_AGAIN_AFTER_SECONDS: Final = 1.0
READY_WORDS: Final = "Ready on"


class Demo:
    """The deck and the trainer as children, and their progress in a view.

    Args:
        exits: Whether to end once the mark is reached or missed.
        limit_seconds: When the mark is missed, counted from the start.
    """

    def __init__(self, view: View, *, exits: bool, limit_seconds: float) -> None:
        self._view = view
        self._exits = exits
        self._limit_seconds = limit_seconds
        self._folders = Folders(settings.ROLLDECK_VAR)
        self._began_at = time.monotonic()
        self._children: list[Child] = []
        self._environment: dict[str, str] = {}

    def run(self) -> bool:
        """Return whether the policy reached the mark; without `exits`, only after Ctrl-C.

        Raises:
            StartFailed: If the deck does not start, or ends by itself.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        self._folders.create()
        try:
            return self._watch(*self._start())
        finally:
            self._stop()

    def _start(self) -> tuple[Child, Scenario]:
        deck = self._child("deck", "manage.py", "up", stop_seconds=20.0)
        self._wait_for(deck)
        services = Services.from_file(self._folders.services)
        services.adopt()
        self._environment = services.child_environment(
            base_folder=settings.BASE_DIR, var=settings.ROLLDECK_VAR
        )
        scenario = prepare(now=timezone.now())
        self._view.say(f"Run {scenario.run_name} is launched; a trainer begins")
        return deck, scenario

    def _watch(self, deck: Child, scenario: Scenario) -> bool:
        reader = ProgressReader(scenario.run_id)
        trainer = _Trainer(self._child, scenario)
        report = _Report(self._view)
        with self._view as view:
            while True:
                if deck.exit_code is not None:
                    raise StartFailed(f"the deck has ended:\n{deck.last_lines()}")
                trainer.keep_running()
                progress = reader.read(now=timezone.now())
                elapsed = time.monotonic() - self._began_at
                phase = progress.phase(trainer_exit_code=trainer.exit_code)
                url = settings.ROLLDECK_PUBLIC_URL + scenario.login_path
                view.show(Frame(phase=phase, elapsed_seconds=elapsed, progress=progress, url=url))
                report.look(progress, elapsed, limit_seconds=self._limit_seconds)
                if self._exits and report.verdict is not None:
                    return report.verdict
                time.sleep(LOOK_EVERY_SECONDS)

    def _wait_for(self, deck: Child) -> None:
        """Show the deck's own lines until it is ready."""
        deadline = time.monotonic() + DECK_STARTS_WITHIN_SECONDS
        shown = 0
        while True:
            ended = deck.exit_code is not None
            lines = deck.logged().splitlines()
            for line in lines[shown:]:
                self._view.say(line)
                if line.startswith(READY_WORDS):
                    return
            shown = len(lines)
            if ended or time.monotonic() > deadline:
                raise StartFailed("the deck did not start; its own lines above say why")
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
        # A second Ctrl-C must not leave half of it running.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._view.say("Stopping …")
        for child in reversed(self._children):
            child.stop()


class _Trainer:
    """The example trainer; started again where it stopped, should it die."""

    def __init__(self, child: Callable[..., Child], scenario: Scenario) -> None:
        self._start = child
        self._scenario = scenario
        self._again_at: float | None = None
        self._child = self._begin()

    @property
    def exit_code(self) -> int | None:
        """Why it ended; None while it runs, or when it has done all its steps."""
        return self._child.exit_code or None

    def keep_running(self) -> None:
        """Start it again, a moment after it died."""
        if self.exit_code is None:
            return
        if self._again_at is None:
            self._again_at = time.monotonic() + TRAINER_AGAIN_AFTER_SECONDS
        elif time.monotonic() >= self._again_at:
            self._again_at = None
            self._child = self._begin("--resume")

    def _begin(self, *words: str) -> Child:
        return self._start(
            "trainer",
            str(settings.BASE_DIR / "examples" / "ppo_cartpole.py"),
            *words,
            ROLLDECK_URL=settings.ROLLDECK_PUBLIC_URL,
            ROLLDECK_RUN=self._scenario.run_name,
            # Not on the command line, which every user of the machine can read.
            ROLLDECK_TOKEN=self._scenario.trainer_token,
        )


class _Report:
    """Says each milestone once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._said_first_episode = False
        self.verdict: bool | None = None

    def look(self, progress: Progress, elapsed: float, *, limit_seconds: float) -> None:
        """Say what is new."""
        if progress.episodes and not self._said_first_episode:
            self._said_first_episode = True
            self._view.say(f"First episode {elapsed:.1f} seconds after the command")
        if self.verdict is None and progress.has_reached_target:
            self.verdict = True
            self._view.say(
                f"Mean return {progress.best_recent_return:.1f} over the last 20 episodes, "
                f"{elapsed:.1f} seconds after the command and {progress.env_steps} env steps"
            )
        elif self.verdict is None and elapsed > limit_seconds:
            self.verdict = False
            self._view.say(
                f"Mean return {TARGET_RETURN:g} was not reached within {limit_seconds:g} seconds"
            )
