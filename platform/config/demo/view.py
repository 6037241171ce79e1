"""Views of the demo: a live table in a terminal, or a line every 10 s elsewhere."""

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
    """The content of one update.

    Attributes:
        title: Name of the task and the algorithm.
        phase: Description of the current phase.
        elapsed_seconds: Time since the command started.
        progress: Progress of the run.
        url: One-time login link to the run.
    """

    title: str
    phase: str
    elapsed_seconds: float
    progress: Progress
    url: str


class View(Protocol):
    """A view of frames inside its ``with`` block, and of permanent lines."""

    def __enter__(self) -> Self:
        """Start the display."""
        ...

    def __exit__(self, *error: object) -> None:
        """Stop the display; permanent lines remain."""
        ...

    def show(self, frame: Frame) -> None:
        """Show the current frame."""
        ...

    def print_line(self, line: str) -> None:
        """Write a permanent line."""
        ...


class PlainView:
    """A view that writes one line every ten seconds, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_at = 0.0
        self._said_url = False

    def __enter__(self) -> Self:
        """Start the display."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the display."""

    def show(self, frame: Frame) -> None:
        """Print a line, unless one was printed less than ten seconds ago."""
        if frame.elapsed_seconds < self._next_at:
            return
        if not self._said_url:
            self._said_url = True
            self.print_line(link_line(frame))
        self._next_at = frame.elapsed_seconds + LINE_EVERY_SECONDS
        self.print_line(line_of(frame))

    def print_line(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class LiveView:
    """A view that updates one table in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4)
        self._said_url = False

    def __enter__(self) -> Self:
        """Start the live display."""
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the live display; the last table remains."""
        self._live.stop()

    def show(self, frame: Frame) -> None:
        """Replace the table; the link is printed above it, so that no border breaks it."""
        if not self._said_url:
            self._said_url = True
            self.print_line(link_line(frame))
        self._live.update(panel_of(frame))

    def print_line(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(line, highlight=False, markup=False, soft_wrap=True)


def link_line(frame: Frame) -> str:
    """Return the line with the login link."""
    return f"Watch it (signs in once, within 15 minutes): {frame.url}"


def line_of(frame: Frame) -> str:
    """Format a frame as one line."""
    run = frame.progress.run
    return (
        f"{frame.elapsed_seconds:5.0f} s  {frame.phase}: {frame.progress.summary}, "
        f"version {_version(run)}, {run.queued} queued, "
        f"{run.workers_running}/{run.workers} workers"
    )


def _version(run: RunState) -> str:
    return "none yet" if run.policy_step < 0 else str(run.policy_step)


def panel_of(frame: Frame) -> Panel:
    """Format a frame as a table in a box."""
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
