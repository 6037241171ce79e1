"""Look at what a request changed: rows of the database, and memory of the server."""

from collections import Counter
from pathlib import Path

from django.apps import apps
from django.db import connection

# Rows that come and go by themselves: answers on their way, sessions, open segments, what
# processes say of themselves, and calls, which a thread notes a moment later.
RESTLESS = {"unansweredpush", "session", "segment", "deckpart", "apicall"}


def tables() -> list[str]:
    """Return the tables of our apps that only requests write to."""
    return [
        model._meta.db_table
        for app in ("runs", "buffer", "rollouts")
        for model in apps.get_app_config(app).get_models()
        if model._meta.model_name not in RESTLESS
    ]


def rows() -> Counter[str]:
    """Return how many rows each table has."""
    names = tables()
    counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in names)  # noqa: S608 ours
    connection.ensure_connection()
    # Asked thousands of times, and planned for longer than it runs.
    found = connection.connection.execute(f"SELECT {counts}", prepare=True).fetchone() or ()
    return Counter(dict(zip(names, found, strict=True)))


class Memory:
    """Peak memory of a process over one piece of work."""

    def __init__(self, pid: int) -> None:
        self._proc = Path("/proc", str(pid))
        self._before = self._of("VmRSS")
        # Makes the peak the present size.
        (self._proc / "clear_refs").write_text("5")

    def growth_bytes(self) -> int:
        """Return by how much the process was larger at its peak than when this began."""
        return max(0, self._of("VmHWM") - self._before)

    def _of(self, name: str) -> int:
        line = next(
            line
            for line in (self._proc / "status").read_text().splitlines()
            if line.startswith(name)
        )
        return int(line.split()[1]) * 1024
