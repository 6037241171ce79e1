"""Observe the effects of a request on the database's rows and the server's memory."""

from collections import Counter
from pathlib import Path

from django.apps import apps
from django.db import connection

# Tables that change without requests: unanswered pushes, sessions, open segments, heartbeats,
# calls, which a thread records later, and alerts: the web process reports that no jobs run.
RESTLESS = {"unansweredpush", "session", "segment", "processheartbeat", "alert"}


def tables() -> list[str]:
    """Return the tables of our apps that change only by requests."""
    return [
        model._meta.db_table
        for app in ("runs", "buffer", "rollouts")
        for model in apps.get_app_config(app).get_models()
        if model._meta.model_name not in RESTLESS
    ]


def rows() -> Counter[str]:
    """Return the number of rows of each table."""
    names = tables()
    counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in names)  # noqa: S608 ours
    connection.ensure_connection()
    # Executed thousands of times, with a planning time above its execution time.
    row = connection.connection.execute(f"SELECT {counts}", prepare=True).fetchone() or ()
    return Counter(dict(zip(names, row, strict=True)))


class Memory:
    """Peak memory of a process during a block of work."""

    def __init__(self, pid: int) -> None:
        self._proc = Path("/proc", str(pid))
        self._before = self._of("VmRSS")
        # Resets the peak to the present size.
        (self._proc / "clear_refs").write_text("5")

    def growth_bytes(self) -> int:
        """Return the growth from the start to the peak, in bytes."""
        return max(0, self._of("VmHWM") - self._before)

    def _of(self, name: str) -> int:
        line = next(
            line
            for line in (self._proc / "status").read_text().splitlines()
            if line.startswith(name)
        )
        return int(line.split()[1]) * 1024
