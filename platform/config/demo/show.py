"""Run the demo: a server, a run, a trainer, and a table in the terminal."""

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from buffer.batches.queries.queues import queue_depth
from config.embedded.children import Child, Command, StartFailed
from config.embedded.services import Folders, Services, manage_command
from rollouts.control.queries.fleets import fleet_state
from rollouts.curriculum.queries.lessons import lesson_changes, lessons
from rollouts.curriculum.schemas import LessonChangeRow, LessonRow
from rollouts.episodes.queries import episodes
from runs.access.models import User
from runs.access.services.login_links import make_login_link
from runs.access.services.tokens import create_token
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from runs.lifecycle.services.lifecycle import change_status, create
from web.rules.amounts import percent
from web.rules.pages import PageRequest

# Learning progress of a demo's run, read from the database.

WINDOW_EPISODES: Final = 20
"""Number of episodes in the mean return."""
TARGET_RETURN: Final = 450.0
TARGET_LESSONS: Final = 3
TARGET_SUCCESS: Final = 0.9
ROWS_PER_READ: Final = 500
_MOVES: Final = {
    ("locked", "active"): "unlocks",
    ("active", "graduated"): "graduates",
    ("graduated", "active"): "falls back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The figures that every run has; `policy_step` is negative before the first weights."""

    status: str = "queued"
    fleet: str = "none"
    workers_running: int = 0
    workers: int = 0
    env_steps: int = 0
    queued: int = 0
    threshold: float = 0.0
    policy_step: int = -2
    served_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot of what a run has learnt.

    Attributes:
        has_begun: Whether any rollout has finished.
        has_reached_target: Whether the target has been reached; stays true.
        share: Progress towards the target, in [0, 1].
        summary: The progress in one phrase, with the target.
        rows: The progress as names and values.
        milestones: All events since the start, oldest first; the list only grows.
    """

    has_begun: bool
    has_reached_target: bool
    share: float
    summary: str
    rows: dict[str, str]
    milestones: Sequence[str]


Reader = Callable[[RunState], Progress]
"""Returns the progress of one run, given its state."""


def run_state(run_id: int, *, now: datetime) -> RunState:
    """Return the state of a run as of now."""
    run = Run.objects.get(pk=run_id)
    queue = queue_depth(run_id)
    fleet = fleet_state(run_id, now=now)
    return RunState(
        status=run.status,
        fleet=fleet.observed,
        workers_running=sum(worker.state == "running" for worker in fleet.workers),
        workers=len(fleet.workers),
        env_steps=fleet.env_steps_total,
        queued=queue.queued,
        threshold=queue.threshold,
        policy_step=run.policy_step,
        served_steps=run.served_steps,
    )


def phase(run: RunState, progress: Progress, *, trainer_exit_code: int | None) -> str:
    """Describe the current phase in words."""
    if progress.has_reached_target:
        return "learnt"
    if trainer_exit_code is not None:
        return "restarting the trainer"
    if run.policy_step < 0:
        return "waiting for the trainer"
    if not progress.has_begun:
        return f"starting the fleet ({run.fleet})"
    return "learning" if run.status == "running" else run.status


class Returns:
    """Reader of the mean return of a run's newest episodes; counts each episode once."""

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id
        self._last_row: int | None = 0
        self._episodes = 0
        self._recent: float | None = None
        self._best: float | None = None

    def __call__(self, run: RunState) -> Progress:
        while True:
            rows = episodes(self._run_id, after=self._last_row, limit=ROWS_PER_READ)
            for row in rows:
                self._last_row = row.id
                self._episodes += row.count
                self._recent = row.recent_return_mean
                if self._episodes >= WINDOW_EPISODES and row.recent_return_mean is not None:
                    self._best = max(self._best or row.recent_return_mean, row.recent_return_mean)
            if len(rows) < ROWS_PER_READ:
                return return_progress(
                    run, episodes=self._episodes, recent=self._recent, best=self._best
                )


def return_progress(
    run: RunState, *, episodes: int, recent: float | None, best: float | None
) -> Progress:
    """Return the progress of a run with so many finished episodes.

    Args:
        run: State of the run.
        episodes: Number of finished episodes.
        recent: Mean return of the last 20 episodes; None before the first.
        best: Highest mean return over 20 episodes so far.
    """
    is_reached = best is not None and best >= TARGET_RETURN
    mean = f"{'–' if recent is None else f'{recent:.1f}'} of {TARGET_RETURN:g}"
    milestones = ["First episode"] if episodes else []
    if is_reached:
        milestones.append(
            f"Mean return {best:.1f} over the last 20 episodes after {run.env_steps} env steps"
        )
    return Progress(
        has_begun=episodes > 0,
        has_reached_target=is_reached,
        share=min(1.0, max(0.0, recent or 0.0) / TARGET_RETURN),
        summary=f"{run.env_steps} env steps, {episodes} episodes, mean return {mean}",
        rows={
            "mean return": f"{mean}, last 20 episodes",
            "episodes": f"{episodes:,}   env steps {run.env_steps:,}",
        },
        milestones=milestones,
    )


def lesson_reader(run_id: int) -> Reader:
    """Return a reader of the lessons of a run."""

    def read(_: RunState) -> Progress:
        newest: PageRequest[int] = PageRequest(limit=ROWS_PER_READ)
        changes = lesson_changes(run_id, lesson="", page=newest).results
        return lesson_progress(lessons(run_id).results, list(reversed(changes)))

    return read


def lesson_progress(rows: Sequence[LessonRow], changes: Sequence[LessonChangeRow]) -> Progress:
    """Return the progress of all lessons, given the changes of their status, oldest first.

    The target is that enough lessons have ever graduated, and that the first of them is still
    mastered.
    """
    graduated = list(dict.fromkeys(one.lesson for one in changes if one.target == "graduated"))
    first = next((_success(row) for row in rows if row.name in graduated[:1]), None)
    target = min(TARGET_LESSONS, len(rows))
    summary = f"{len(graduated)} of {len(rows)} lessons have graduated, {target} required"
    if graduated:
        summary += f", {graduated[0]} evaluated at {_percent(first)}"
    return Progress(
        has_begun=any(row.samples for row in rows),
        has_reached_target=first is not None
        and first >= TARGET_SUCCESS
        and len(graduated) >= target,
        share=min(1.0, len(graduated) / max(1, target)),
        summary=summary,
        rows={
            row.name: f"{row.status:9}  evaluated {_percent(_success(row)):>7}   "
            f"drawn {_percent(row.probability):>7}"
            for row in rows
        },
        milestones=[
            f"{one.lesson} {_MOVES.get((one.source, one.target), one.target)} "
            f"at version {one.policy_step} ({one.reason})"
            for one in changes
        ],
    )


def _success(row: LessonRow) -> float | None:
    """Return the success, in [0, 1], of a lesson's newest evaluation."""
    figures = row.evaluation.figures if row.evaluation else None
    return figures.success.estimate if figures else None


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share, digits=1)


# Start a server and a trainer, and show the learning progress.

USER_NAME: Final = "demo"
SERVER_START_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.5
LINE_EVERY_SECONDS: Final = 10.0
TRAINER_RESTART_SECONDS: Final = 1.0
# Enough for a loaded machine to start Python and torch, and to find a restarted web process.
EARLY_DEATH_SECONDS: Final = 60.0
EARLY_DEATHS_AT_MOST: Final = 10
READY_TEXT: Final = "Ready on"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoKind:
    """One demo: its title, run preset, trainer in examples/, time limit and progress reader."""

    title: str
    preset: str
    trainer: str
    limit_seconds: float
    reader: Callable[[int], Reader]


DEMOS: Final = {
    "cartpole": DemoKind(
        title="CartPole with PPO",
        preset="cartpole",
        trainer="ppo_cartpole.py",
        limit_seconds=600.0,
        reader=Returns,
    ),
    "grpo": DemoKind(
        title="lessons in text with GRPO",
        preset="curriculum",
        trainer="grpo.py",
        limit_seconds=1200.0,
        reader=lesson_reader,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The created objects: a started run, its trainer's token, and a one-time link to its page."""

    run_id: int
    run_name: str
    trainer_token: str
    login_path: str


def prepare(*, preset: str, config: dict[str, Any] | None = None, now: datetime) -> Scenario:
    """Create the demo's user if missing, and a new run, through the dashboard's own services.

    Raises:
        UnknownPreset: If the preset does not exist.
        InvalidRunConfig: If `config`, which overrides the preset, is invalid.
    """
    user = User.objects.filter(username=USER_NAME).first()
    if user is None:  # the link signs in, so the password is random
        user = User.objects.create_superuser(USER_NAME, password=secrets.token_urlsafe(24))
    taken = set(Run.objects.filter(name__startswith="demo-").values_list("name", flat=True))
    name = next(name for name in (f"demo-{place}" for place in count(1)) if name not in taken)
    run = create(name=name, preset=preset, config=config, created_by=user, now=now)
    change_status(run_id=run.pk, verb=RunVerb.START, actor=f"user:{USER_NAME}", now=now)
    _, token = create_token(
        name=f"trainer of {run.name}", scopes=["trainer"], run_id=run.pk, created_by=user, now=now
    )
    path = make_login_link(user, then=f"/runs/{run.name}", now=now)
    return Scenario(run_id=run.pk, run_name=run.name, trainer_token=token, login_path=path)


class Demo:
    """The server and the trainer as child processes, with their progress on a console.

    Args:
        demo: The demo to run.
        console: A terminal shows a live table; anything else a line every ten seconds.
        exits: Whether to end once the target is reached or the time limit has passed.
        limit_seconds: Time limit counted from the start; None for the demo's.
        config: A run configuration that replaces the demo's preset.
    """

    def __init__(
        self,
        demo: DemoKind,
        console: Console,
        *,
        exits: bool,
        limit_seconds: float | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self._demo = demo
        self._console = console
        self._exits = exits
        self._limit_seconds = demo.limit_seconds if limit_seconds is None else limit_seconds
        self._config = config
        self._folders = Folders(settings.ROLLDECK_VAR)
        self._began_at = time.monotonic()
        self._children: list[Child] = []
        self._environment: dict[str, str] = {}
        self._printed = 0
        self._next_line_at = 0.0
        self._missing: str | None = None
        """Empty once the target is reached; the missing part once the time limit has passed."""

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
            server = self._start_server()
            preset = "" if self._config else self._demo.preset
            scenario = prepare(preset=preset, config=self._config, now=timezone.now())
            self._print(f"Run {scenario.run_name} is launched; starting its trainer")
            trainer = _Trainer(self._child, self._demo.trainer, scenario)
            url = settings.ROLLDECK_PUBLIC_URL + scenario.login_path
            self._print(f"Further login links: {manage_command('login_link', USER_NAME)}")
            self._print(f"Watch it (signs in once, within 10 minutes): {url}")
            read = self._demo.reader(scenario.run_id)
            seen: tuple[RunState, Progress] | None = None
            live = Live(console=self._console, refresh_per_second=4)
            with live if self._console.is_terminal else nullcontext():
                while self._missing is None or not self._exits:
                    if server.exit_code is not None:
                        raise StartFailed(f"the server has ended:\n{server.last_lines()}")
                    trainer.keep_running()
                    try:
                        run = run_state(scenario.run_id, now=timezone.now())
                        seen = run, read(run)
                    except DatabaseError:  # the last snapshot is kept until it is back
                        connection.close()
                    if seen is not None:
                        self._show(live, *seen, trainer_exit_code=trainer.exit_code)
                    time.sleep(POLL_SECONDS)
            return self._missing
        finally:
            # A second Ctrl-C must not leave some processes running.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._print("Stopping …")
            for child in reversed(self._children):
                child.stop()

    def _start_server(self) -> Child:
        """Start the server, and show its own lines until it is ready."""
        server = self._child(
            "server", str(settings.BASE_DIR / "manage.py"), "up", stop_seconds=20.0
        )
        deadline = time.monotonic() + SERVER_START_SECONDS
        shown, is_ready = 0, False
        while not is_ready:
            has_ended = server.exit_code is not None
            lines = server.logged().splitlines()[shown:]
            for line in lines:
                self._print(line)
            shown += len(lines)
            is_ready = any(line.startswith(READY_TEXT) for line in lines)
            if not is_ready and (has_ended or time.monotonic() > deadline):
                raise StartFailed("the server did not start; see its output above")
            time.sleep(0.1)
        services = Services.from_file(self._folders.services)
        services.adopt()
        self._environment = services.child_environment(
            base_folder=settings.BASE_DIR, var=settings.ROLLDECK_VAR
        )
        return server

    def _show(
        self, live: Live, run: RunState, progress: Progress, *, trainer_exit_code: int | None
    ) -> None:
        """Update the table or the log, print new milestones, and check the target."""
        elapsed = time.monotonic() - self._began_at
        now_doing = phase(run, progress, trainer_exit_code=trainer_exit_code)
        if self._console.is_terminal:
            live.update(panel_of(self._demo.title, now_doing, elapsed, run, progress))
        elif elapsed >= self._next_line_at:
            self._next_line_at = elapsed + LINE_EVERY_SECONDS
            self._print(line_of(now_doing, elapsed, run, progress))
        after = f"{elapsed:.1f} seconds after the command"
        for line in progress.milestones[self._printed :]:
            self._print(f"{line}, {after}")
        self._printed = max(self._printed, len(progress.milestones))
        if self._missing is not None:
            return
        if progress.has_reached_target:
            self._missing = ""
            self._print(f"Learnt {after}: {progress.summary}")
        elif elapsed > self._limit_seconds:
            self._missing = f"{progress.summary} after {self._limit_seconds:g} seconds"
            self._print(f"Target missed: {self._missing}")

    def _print(self, line: str) -> None:
        """Print a line, above the table of a terminal."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

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


class _Trainer:
    """The example trainer; restarted from its last checkpoint if it fails.

    Raises:
        StartFailed: From `keep_running`, after repeated failures within a minute of the start.
    """

    def __init__(self, start: Callable[..., Child], file: str, scenario: Scenario) -> None:
        self._start = start
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
            is_early = now - self._child.started_at < EARLY_DEATH_SECONDS
            self._early_deaths = self._early_deaths + 1 if is_early else 0
            if self._early_deaths >= EARLY_DEATHS_AT_MOST:
                raise StartFailed(
                    f"the trainer failed {self._early_deaths} times:\n{self._child.last_lines()}"
                )
        elif now >= self._again_at:
            self._again_at = None
            self._child = self._begin("--resume")

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


def line_of(now_doing: str, elapsed_seconds: float, run: RunState, progress: Progress) -> str:
    """Format the progress as one line."""
    return (
        f"{elapsed_seconds:5.0f} s  {now_doing}: {progress.summary}, version {_version(run)}, "
        f"{run.queued} queued, {run.workers_running}/{run.workers} workers"
    )


def panel_of(
    title: str, now_doing: str, elapsed_seconds: float, run: RunState, progress: Progress
) -> Panel:
    """Format the progress as a table in a box."""
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", min_width=14)
    table.add_column()
    minutes, seconds = divmod(int(elapsed_seconds), 60)
    rows = {
        "phase": f"{now_doing}   {minutes}:{seconds:02}",
        **progress.rows,
        "policy version": f"{_version(run)}   batches served {run.served_steps}",
        "queue": f"{run.queued} of {run.threshold:g}",
        "workers": f"{run.workers_running} of {run.workers} running   fleet {run.fleet}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return Panel(
        Group(table, ProgressBar(total=1.0, completed=progress.share)),
        title=f"Rolldeck: {title}",
        subtitle="Ctrl-C stops everything",
        border_style="green" if progress.has_reached_target else "blue",
    )


def _version(run: RunState) -> str:
    return "none yet" if run.policy_step < 0 else str(run.policy_step)
