"""Show the demo in a terminal as one live table, and elsewhere as a line now and then."""

from dataclasses import dataclass
from typing import Final, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from config.demo.progress import TARGET_RETURN, Progress

LINE_EVERY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What one view shows.

    Attributes:
        phase: What is going on, in words.
        elapsed_seconds: Since the command.
        progress: How far the run is.
        url: Where to look, with a sign-in that works once.
    """

    phase: str
    elapsed_seconds: float
    progress: Progress
    url: str


class View(Protocol):
    """Shows frames between ``with`` and its end, and lines that stay."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, *error: object) -> None:
        """End; what was said stays."""
        ...

    def show(self, frame: Frame) -> None:
        """Show the present."""
        ...

    def say(self, line: str) -> None:
        """Show a line that stays."""
        ...


class PlainView:
    """One line every ten seconds, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_at = 0.0
        self._said_url = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def show(self, frame: Frame) -> None:
        """Print a line, unless one was printed just now."""
        if frame.elapsed_seconds < self._next_at:
            return
        if not self._said_url:
            self._said_url = True
            self.say(link_line(frame))
        self._next_at = frame.elapsed_seconds + LINE_EVERY_SECONDS
        self.say(line_of(frame))

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class LiveView:
    """One table that changes in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4)
        self._said_url = False

    def __enter__(self) -> Self:
        """Take the terminal."""
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Give the terminal back; the last table stays."""
        self._live.stop()

    def show(self, frame: Frame) -> None:
        """Replace the table; the link stands above it, where no box breaks it in two."""
        if not self._said_url:
            self._said_url = True
            self.say(link_line(frame))
        self._live.update(panel_of(frame))

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(line, highlight=False, markup=False, soft_wrap=True)


def link_line(frame: Frame) -> str:
    """Return where to look, as one line."""
    return f"Watch it (signs in once): {frame.url}"


def line_of(frame: Frame) -> str:
    """Return a frame as one line."""
    seen = frame.progress
    return (
        f"{frame.elapsed_seconds:5.0f} s  {frame.phase}: {seen.env_steps} env steps, "
        f"{seen.episodes} episodes, mean return {_number(seen.recent_return)} of "
        f"{TARGET_RETURN:g}, version {seen.policy_step}, {seen.queued} queued, "
        f"{seen.workers_running}/{seen.workers} workers"
    )


def panel_of(frame: Frame) -> Panel:
    """Return a frame as a table in a box."""
    seen = frame.progress
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", min_width=14)
    table.add_column()
    minutes, seconds = divmod(int(frame.elapsed_seconds), 60)
    rows = {
        "phase": f"{frame.phase}   {minutes}:{seconds:02}",
        "mean return": f"{_number(seen.recent_return)} of {TARGET_RETURN:g}, last 20 episodes",
        "episodes": f"{seen.episodes:,}   env steps {seen.env_steps:,}",
        "policy version": f"{seen.policy_step}   batches served {seen.served_steps}",
        "queue": f"{seen.queued} of {seen.threshold:g} fragments",
        "workers": f"{seen.workers_running} of {seen.workers} running   fleet {seen.fleet}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    bar = ProgressBar(total=TARGET_RETURN, completed=max(0.0, seen.recent_return or 0.0))
    return Panel(
        Group(table, bar),
        title="Rolldeck: CartPole with PPO",
        subtitle="Ctrl-C stops everything",
        border_style="green" if seen.has_reached_target else "blue",
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
