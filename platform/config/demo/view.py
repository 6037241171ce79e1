"""Show the demo in a terminal as one live table, and elsewhere as a line now and then."""

from dataclasses import dataclass
from typing import Final, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from config.demo.progress import Progress, RunState

LINE_EVERY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What one view shows.

    Attributes:
        title: What is learnt, and how.
        phase: What is going on, in words.
        elapsed_seconds: Since the command.
        progress: How far the run is.
        url: One-time login link to the run.
    """

    title: str
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
    return f"Watch it (signs in once, within 15 minutes): {frame.url}"


def line_of(frame: Frame) -> str:
    """Return a frame as one line."""
    run = frame.progress.run
    return (
        f"{frame.elapsed_seconds:5.0f} s  {frame.phase}: {frame.progress.summary}, "
        f"version {_version(run)}, {run.queued} queued, "
        f"{run.workers_running}/{run.workers} workers"
    )


def _version(run: RunState) -> str:
    return "none yet" if run.policy_step < 0 else str(run.policy_step)


def panel_of(frame: Frame) -> Panel:
    """Return a frame as a table in a box."""
    seen, run = frame.progress, frame.progress.run
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", min_width=14)
    table.add_column()
    minutes, seconds = divmod(int(frame.elapsed_seconds), 60)
    rows = {
        "phase": f"{frame.phase}   {minutes}:{seconds:02}",
        **seen.rows,
        "policy version": f"{_version(run)}   batches served {run.served_steps}",
        "queue": f"{run.queued} of {run.threshold:g}",
        "workers": f"{run.workers_running} of {run.workers} running   fleet {run.fleet}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return Panel(
        Group(table, ProgressBar(total=1.0, completed=seen.share)),
        title=f"Rolldeck: {frame.title}",
        subtitle="Ctrl-C stops everything",
        border_style="green" if seen.has_reached_target else "blue",
    )
